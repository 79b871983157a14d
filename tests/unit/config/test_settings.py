"""config.yaml's check: every mistake at once, each with its path, what was found and allowed."""

import re
import shlex

import pytest
from helpers import merge
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from rlvr.config.methods.sft import SftJob
from rlvr.config.runs import Run, decimal
from rlvr.config.settings.whole import Config, load_config
from rlvr.config.values import Name
from rlvr.errors import UserError
from rlvr.jobs.command_line import flags


def changed(raw, path, value):
    """The config with the value at a dotted path set."""
    *parents, last = path.split(".")
    for parent in parents:
        raw = raw[parent]
    raw[last] = value


MISTAKES = [
    # path, value, what the message says of it
    ("grpo.learning_rat", 1e-4, r"grpo\.learning_rat: unknown key\. Did you mean learning_rate\?"),
    ("grup", {}, r"grup: unknown key\. Did you mean grpo\? Allowed here: engine, device, policy,"),
    (
        "studies.weak_start.beta",
        [0],
        r"studies\.weak_start\.beta: unknown key\. Did you mean betas",
    ),
    ("teachers.weak.q", 0.3, r"teachers\.weak\.q: unknown key\. Allowed here: truth_probability"),
    ("recipes.short.iteration", 3, r"recipes\.short\.iteration: unknown key\. Did you mean itera"),
    ("grpo.group_size", -8, r"grpo\.group_size: found -8\. .*greater than or equal to 2"),
    ("grpo.group_size", 1, r"grpo\.group_size: found 1\. "),
    (
        "grpo.reward",
        "exac",
        r"grpo\.reward: found 'exac'\. Not among the rewards; allowed: .*exact",
    ),
    ("recipes.short.reward", "x", r"recipes\.short\.reward: found 'x'\. Not among the rewards"),
    (
        "recipes.short.method",
        "ppo",
        r"short\.method: found 'ppo'\. Not among the methods; ",
    ),
    ("recipes.short.method", "sft", r"short\.method: found 'sft'\. .*allowed: .*grpo"),
    ("recipes.short", 3, r"recipes\.short: found 3\. "),
    ("grpo.temperature", 1e-38, r"grpo\.temperature: found 1e-38\. .*equal to 0\.01"),
    ("recipes.short.temperature", 101, r"short\.temperature: found 101\. .*equal to 100"),
    (
        "teachers.partial.split.held_out",
        2001,
        r"split\.held_out: found 2001\. .*multiple of 2 \(a sum stays with its mirror, a \+ b with",
    ),
    (
        "sft.learning_rate",
        1e31,
        r"sft\.learning_rate: found 1e\+31\. Input should be at most 1e\+30\.",
    ),
    ("sft.steps", 0, r"sft\.steps: found 0\. .*greater than or equal to 1"),
    ("sft.steps", 1.5, r"sft\.steps: found 1\.5\. .*valid integer"),
    ("sft.steps", 100.0, r"sft\.steps: found 100\.0\. .*valid integer"),
    ("sft.steps", True, r"sft\.steps: found True\. .*valid integer"),
    ("sft.steps", "100", r"sft\.steps: found '100'\. .*without quotes"),
    ("sft.learning_rate", "1e-3", r"sft\.learning_rate: found '1e-3'\. .*wants 1\.0e-3"),
    ("sft.learning_rate", float("nan"), r"sft\.learning_rate: found nan\."),
    ("sft.learning_rate", float("inf"), r"sft\.learning_rate: found inf\."),
    ("sft.learning_rate", None, r"sft\.learning_rate: found None\."),
    ("recipes.short.iterations", -3, r"recipes\.short\.iterations: found -3\. .*equal to 1"),
    ("recipes.short.iterations", None, r"recipes\.short\.iterations: found None\."),
    (
        "studies.weak_start.betas",
        [-0.1],
        r"studies\.weak_start\.betas\.0: found -0\.1\. .*equal to 0",
    ),
    ("studies.weak_start.betas", [], r"studies\.weak_start\.betas: found \[\]"),
    (
        "studies.weak_start.teachers",
        ["weka"],
        r"found 'weka'\. Not among the teachers; allowed: .*weak, cold",
    ),
    (
        "studies.weak_start.recipes",
        ["bas"],
        r"found 'bas'\. Not among the recipes; allowed: .*base, short",
    ),
    (
        "figures.fig1_rlvr_overturns.studies",
        ["x"],
        r"found 'x'\. Not among the studies; allowed: .*weak_start",
    ),
    ("claims.studies", ["x"], r"claims\.studies\.0: found 'x'\. Not among the studies"),
    ("figures.fig9", {"studies": ["weak_start"], "iterations": 3}, r"found 'fig9'\. .*fig1_rlvr_"),
    ("recipes.base", {"group_size": 4}, r"recipes\.base must be there and empty"),
    ("studies.weak_start.betas", [1e300], r"betas\.0: found 1e\+300\. .*equal to 1000"),
    ("seeds", [42, 43, 42], r"seeds: found \[42, 43, 42\]\. 42 given more than once"),
    ("seeds", [-1], r"seeds\.0: found -1\."),
    ("seeds", ["42"], r"seeds\.0: found '42'\."),
    (
        "studies.weak_start.seeds",
        [7, 7],
        r"weak_start\.seeds: found \[7, 7\]\. 7 given more than o",
    ),
    ("device", "gpu", r"device: found 'gpu'\. Input should be 'cpu', 'cuda' or 'auto'"),
    ("policy.heads", 5, r"policy: .*Heads \(5\) must divide width \(64\)"),
    ("teachers.weak.truth_probability", 1.1, r"truth_probability: found 1\.1\. .*equal to 1"),
    ("teachers.we ak", {"truth_probability": 0.1}, r"teachers\.we ak: .*Names are lower-case"),
    ("teachers.$(rm -rf x)", {"truth_probability": 0.1}, r"Names are lower-case letters"),
    ("teachers.weak\n", {"truth_probability": 0.1}, r"Names are lower-case letters"),
    ("teachers." + "a" * 101, {"truth_probability": 0.1}, r"have at most 100 characters"),
    ("studies." + "a" * 246, {}, r"have at most 100 characters"),
    (
        "studies.weak_start.betas",
        [1e-300],
        r"betas\.0: found 1e-300\. A beta is 0, or at least 1e-09",
    ),
    ("claims.studies", ["weak_start"] * 501, r"claims\.studies: .*at most 500 items"),
    ("teachers", {}, r"teachers: found \{\}\."),
    ("grpo", None, r"grpo: found None"),
    ("claims.confidence", 1, r"claims\.confidence: found 1\. .*less than 1"),
]


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES)
def test_mistake_is_reported(raw_config, path, value, message):
    changed(raw_config, path, value)
    with pytest.raises(UserError, match=message):
        load_config(raw_config)


def test_a_missing_key_is_reported(raw_config):
    del raw_config["grpo"]["epochs"]
    with pytest.raises(UserError, match=r"1 mistake in the config:\n  grpo\.epochs: missing"):
        load_config(raw_config)


def test_all_mistakes_are_reported_at_once(raw_config):
    changed(raw_config, "grpo.group_size", -1)
    changed(raw_config, "sft.step", 1)
    changed(raw_config, "seeds", [1, 1])
    changed(raw_config, "studies.weak_start.teachers", ["nobody"])
    changed(raw_config, "studies.cold_start.betas", [-1])
    with pytest.raises(UserError) as caught:
        load_config(raw_config)
    first, *lines = str(caught.value).splitlines()
    assert first == "5 mistakes in the config:"
    assert [line.split(":")[0].strip() for line in lines] == [
        "seeds",
        "grpo.group_size",
        "sft.step",
        "studies.weak_start.teachers.0",
        "studies.cold_start.betas.0",
    ]


def test_config_has_the_settings_of_the_document(config):
    assert config.seeds == [42, 43, 44]
    assert config.policy.model_dump() == {"width": 64, "heads": 4, "feed_forward": 128, "layers": 2}
    assert config.sft.model_dump() == {"learning_rate": 3e-3, "steps": 1200, "batch_size": 256}
    expected = {
        "iterations": 600,
        "prompts_per_iteration": 32,
        "group_size": 8,
        "epochs": 2,
        "minibatch_size": 64,
        "reward": "exact",
        "temperature": 1.0,
        "advantages": "group_std",
        "ratio": "sequence",
        "clip_epsilon_low": 0.2,
        "clip_epsilon_high": 0.2,
        "kl_placement": "advantage",
        "learning_rate": 1e-4,
        "max_gradient_norm": 1.0,
        "advantage_epsilon": 1e-4,
        "zero_signal_std": 1e-6,
        "evaluate_first": 40,
        "evaluate_every": 10,
    }
    for recipe in ("base", "short"):  # document A's
        grpo = config.job(recipe).grpo.model_dump()
        assert (grpo | {"iterations": 600}).items() >= expected.items()
    for teacher, q in {"weak": 0.3, "cold": 0, "partial": 1}.items():
        assert config.teachers[teacher].truth_probability == q
    # Document B: section 5 of its settings, and the stopping rule that makes its start.
    grpo = config.job("document_b").grpo
    assert (grpo.temperature, grpo.kl_placement, grpo.kl_estimator) == (0.7, "loss", "k3")
    partial = config.teachers["partial"]
    assert (partial.split.validation, partial.split.held_out) == (1000, 2000)
    assert (partial.stopping.validation_accuracy, partial.stopping.every) == (0.3, 5)


@pytest.mark.parametrize(("seeds", "expected"), [(1, [42]), (20, list(range(42, 62)))])
def test_a_number_of_seeds_stands_for_so_many(raw_config, seeds, expected):
    raw_config["seeds"] = seeds
    assert load_config(raw_config).seeds == expected
    assert load_config(raw_config).study("weak_start").seeds == expected
    assert load_config(raw_config).study("partial_start").seeds == [42, 43, 44, 45, 46]


def test_recipe_changes_what_it_names_and_nothing_else(config):
    base, short = config.job("base").grpo, config.job("short").grpo
    assert base == config.grpo
    assert short.iterations == 300
    assert short.model_copy(update={"iterations": 600}) == base


@pytest.mark.parametrize("kind", ["teachers", "recipes", "studies", "figures"])
def test_an_overlay_takes_an_entry_out(raw_config, kind):
    entry = {"teachers": {"truth_probability": 0.5}, "recipes": {"epochs": 3},
             "studies": raw_config["studies"]["weak_start"]}.get(kind)  # fmt: skip
    name = "fig5_kl_anchor" if kind == "figures" else "extra"
    if entry:
        raw_config[kind][name] = entry
        assert name in getattr(load_config(raw_config), kind)
    without = load_config(merge(raw_config, {kind: {name: None}}))
    assert name not in getattr(without, kind)


def test_a_figure_that_is_not_there_cannot_be_taken_out(raw_config):
    with pytest.raises(UserError, match=r"found 'fig5_kl_ancor'\. Not among the figures"):
        load_config(merge(raw_config, {"figures": {"fig5_kl_ancor": None}}))


def test_what_is_taken_out_is_missed_where_it_is_used(raw_config):
    raw_config["studies"]["group_size"] = raw_config["teachers"]["cold"] = None
    with pytest.raises(UserError) as caught:
        load_config(raw_config)
    assert "claims.studies.3: found 'group_size'. Not among the studies" in str(caught.value)
    assert "cold_start.teachers.0: found 'cold'. Not among the teachers" in str(caught.value)


def test_settings_that_no_command_has_room_for_are_refused(config):
    betas = [n / 1000 for n in range(1, 20_001)]
    study = config.study("weak_start").model_copy(update={"betas": betas})
    with pytest.raises(UserError, match=r"too long for a command: --recipes .*a study in two"):
        flags(study)


def test_runs_are_every_combination(raw_config):
    raw_config["studies"]["weak_start"] |= {"betas": [0, 0.04], "teachers": ["weak", "cold"]}
    runs = load_config(raw_config).runs("weak_start")
    assert len({run.path for run in runs}) == len(runs) == 12
    assert runs[4].path == "grpo/recipe=base/teacher=weak/beta=0.04/seed=43"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0, "0"), (-0.0, "0"), (0.04, "0.04"), (1.0, "1"), (1e-5, "0.00001"),
     (10.0, "10"), (100, "100")],
)  # fmt: skip
def test_numbers_in_paths_are_written_one_way(value, text):
    assert decimal(value) == text


def test_run_refuses_a_name_that_would_change_its_path():
    with pytest.raises(ValueError, match="teacher"):
        Run(method="grpo", recipe="base", teacher="../weak", beta=0, seed=1)


def test_every_setting_stands_in_the_command_line(config):
    line = flags(config.sft_job("partial"))
    assert "--teacher.truth-probability 1.0" in line
    assert "--teacher.split.held-out 2000" in line
    assert "--teacher.stopping.every 5" in line
    for group in ("policy", "sft", "teacher"):
        for key in SftJob.model_fields[group].annotation.model_fields:
            assert re.search(rf"--{group}\.{key.replace('_', '-')}[ .]", line)
    weak = flags(config.sft_job("weak"))
    assert "split" not in weak
    assert "stopping" not in weak


def test_every_setting_says_what_it_means():
    def undocumented(model, path=""):
        for name, field in model.model_fields.items():
            inner = field.annotation
            if hasattr(inner, "model_fields"):
                yield from undocumented(inner, f"{path}{name}.")
            elif not field.description and not str(inner).startswith("dict["):
                yield path + name

    assert list(undocumented(Config)) == []


@given(st.text(max_size=20) | st.from_regex(r"[a-z][a-z0-9_]*[^a-z0-9]?", fullmatch=True))
def test_a_name_that_is_allowed_means_itself_to_a_shell_and_in_a_path(name):
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        return
    assert shlex.quote(name) == name
    assert not set(name) & set("/.{}=")
