"""Bad input: one message that says where, what and what is allowed; no job; nothing replaced."""

import json
import pickle
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from helpers import FULL_SIZE, merge, tiny_yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from rlvr.config.settings.whole import load_config
from rlvr.errors import UserError
from rlvr.figures.shown import check_figures
from rlvr.jobs.records import read_parquet, write_parquet
from rlvr.methods.columns import METRICS
from rlvr.policy.parameters import initial_values, named

SFT = "results/sft/teacher=weak/seed=1/policy.safetensors"
GRPO = "results/grpo/recipe=base/teacher=weak/beta=0/seed=1"
TABLE = "results/tables/weak_start.parquet"


def nothing_happened(workflow, before, done):
    """Snakemake refused: no job ran and no file changed."""
    assert done.returncode != 0
    assert "Finished job" not in done.stdout + done.stderr
    assert "Traceback (most recent call last)" not in done.stdout + done.stderr
    assert workflow.contents() == before


# --- Configs --------------------------------------------------------------------------------------


def teacher(name):
    return {"teachers": {name: {"truth_probability": 0.5}}}


def learned(**changes):
    mine = {"kind": "learned", "labels": "truthful", "pairs": 9, "learning_rate": 1e-3, "steps": 2}
    return {"rewards": {"mine": mine | changes}}


NAMES = "Names are lower-case letters, digits and _, begin with a letter, and have at most 100"

CONFIGS = [
    # unknown keys, at each level
    ({"grpos": {"epochs": 1}}, "grpos: unknown key. Did you mean grpo?"),
    ({"grpo": {"learning_rte": 1e-4}}, "grpo.learning_rte: unknown key. Did you mean learning_"),
    ({"sft": {"batch": 64}}, "sft.batch: unknown key."),
    ({"policy": {"depth": 2}}, "policy.depth: unknown key. Did you mean width?"),
    ({"teachers": {"weak": {"q": 0.3}}}, "teachers.weak.q: unknown key."),
    ({"recipes": {"short": {"iteration": 5}}}, "iteration: unknown key. Did you mean iterations?"),
    ({"teachers": {"partial": {"split": {"test": 5}}}}, "partial.split.test: unknown key."),
    ({"studies": {"group_size": {"seed": [1]}}}, "size.seed: unknown key. Did you mean seeds?"),
    ({"figures": {"fig1_rlvr_overturns": {"dpi": 9}}}, "fig1_rlvr_overturns.dpi: unknown key."),
    ({"claims": {"alpha": 0.05}}, "claims.alpha: unknown key. Allowed here: studies, confidence."),
    # rewards and what learns from pairs
    ({"rewards": {"mine": {"kind": "lerned"}}}, "rewards.mine.kind: found 'lerned'. Not among the"),
    ({"rewards": {"mine": {}}}, "rewards.mine.kind: missing. Not among the kinds of rewards; all"),
    ({"rewards": {"mine": {"kind": "exact", "pairs": 9}}}, "pairs: unknown key. Allowed here: ki"),
    (learned(pairs=None), "rewards.mine.pairs: found None."),
    (learned(pairs=0), "rewards.mine.pairs: found 0."),
    (learned(labels="honest"), "mine.labels: found 'honest'. Input should be 'truthful' or 'habi"),
    ({"rewards": {"mine": {"kind": "learned"}}}, "rewards.mine.pairs: missing. Add this key"),
    ({"rewards": {"mine": {"kind": "random_pass"}}}, "rewards.mine.rate: missing. Add this key"),
    ({"grpo": {"reward": "mine"}}, "grpo.reward: found 'mine'. Not among the rewards; allowed: e"),
    ({"rewards": {"learned_200": None}}, "recipes.learned_200.reward: found 'learned_200'. Not a"),
    ({"studies": {"dpo": {"betas": [0, 0.1]}}}, "studies.dpo.betas: found 0, at which dpo (recip"),
    ({"recipes": {"dpo_lr1": {"group_size": 4}}}, "recipes.dpo_lr1.group_size: unknown key."),
    ({"preferences": {"habitual_truth": 1.5}}, "preferences.habitual_truth: found 1.5."),
    # types
    ({"sft": {"steps": 2.5}}, "sft.steps: found 2.5. Input should be a valid integer"),
    ({"sft": {"steps": True}}, "sft.steps: found True. Input should be a valid integer"),
    ({"grpo": {"epochs": "2"}}, "grpo.epochs: found '2'. Input should be a valid integer (numbers"),
    ("sft: {learning_rate: 1e-3}\n", "sft.learning_rate: found '1e-3'."),
    ({"grpo": None}, "grpo: found None."),
    ({"seeds": "42"}, "seeds: found '42'. Input should be a valid list"),
    ({"seeds": 0}, "seeds: found 0. Value should have at least 1 item"),
    ({"grpo": {"kl_placement": "reward"}}, "grpo.kl_placement: found 'reward'. Input should be"),
    ({"device": "gpu"}, "device: found 'gpu'. Input should be 'cpu', 'cuda' or 'auto'"),
    # ranges
    ({"grpo": {"group_size": -8}}, "grpo.group_size: found -8."),
    ({"grpo": {"group_size": 1}}, "group_size: found 1. Input should be greater than or equal"),
    ({"grpo": {"evaluate_every": 0}}, "grpo.evaluate_every: found 0."),
    ({"grpo": {"temperature": 0}}, "temperature: found 0. Input should be greater than or equ"),
    ({"teachers": {"partial": {"split": {"held_out": 9998}}}}, "must leave some of the 10,000"),
    ({"teachers": {"partial": {"split": None}}}, "Stopping needs a split"),
    ({"teachers": {"weak": {"truth_probability": 1.5}}}, "truth_probability: found 1.5."),
    ({"studies": {"weak_start": {"betas": [-0.04]}}}, "weak_start.betas.0: found -0.04."),
    ({"seeds": [-1]}, "seeds.0: found -1."),
    ({"claims": {"confidence": 1.0}}, "claims.confidence: found 1.0. Input should be less than 1"),
    ("sft: {learning_rate: .inf}\n", "learning_rate: found inf. Input should be a finite number"),
    ("grpo: {clip_epsilon_high: .nan}\n", "grpo.clip_epsilon_high: found nan."),
    ("teachers: {weak: {truth_probability: .nan}}\n", "weak.truth_probability: found nan."),
    ({"policy": {"heads": 3}}, "Heads (3) must divide width (16)"),
    ({"policy": {"feed_forward": 36}}, "policy.feed_forward (36) must be multiples of 8"),
    ({"device": "cuda"}, "  device cuda needs engine torch: the compiled engine is on the CPU."),
    ({"engine": "cuda"}, "engine: found 'cuda'. Input should be 'compiled' or 'torch'"),
    # too much for any memory
    ({"sft": {"batch_size": 10**12}}, "sft.batch_size: found 1000000000000."),
    ({"grpo": {"group_size": 10**6}}, "x group_size (1000000) is more completions than 1,000,000"),
    ({"recipes": {"short": {"group_size": 900_000}}}, "grpo, with recipes.short: prompts_per_"),
    ({"policy": {"width": 99_998}}, "Its layers would have"),
    # lists and names
    ({"seeds": [1, 1]}, "seeds: found [1, 1]. 1 given more than once"),
    ({"studies": {"group_size": {"betas": [0, 0.0]}}}, "group_size.betas: found [0, 0.0]."),
    ({"studies": {"group_size": {"betas": []}}}, "betas: found []. List should have at least"),
    ({"studies": {"group_size": {"teachers": ["strong"]}}}, "Not among the teachers; allowed: "),
    ({"claims": {"studies": ["none"]}}, "Not among the studies; allowed: "),
    ({"figures": {"fig9": {}}}, "fig9: found 'fig9'. Not among the figures; allowed: fig1_"),
    ({"studies": {"weak_start": {"betas": [0.04]}}}, "none of weak_start has recipe base"),
    ({"recipes": {"base": {"epochs": 1}}}, "recipes.base must be there and empty"),
    (teacher("a" * 260), NAMES),
    ({"studies": {"group_size": {"betas": [1e-300]}}}, "betas.0: found 1e-300. A beta is 0, or at"),
    (teacher("größe"), NAMES),
    (teacher("加法"), NAMES),
    (teacher("a; touch hacked #"), NAMES),
    (teacher("$(touch hacked)"), NAMES),
    (teacher("../up"), NAMES),
    (teacher("two\nlines"), NAMES),
    (teacher("{wildcards.seed}"), NAMES),
]  # fmt: skip

CONFIG_FILES = [
    ("seeds: [1, 2\ngrpo: {", "not valid JSON or YAML"),
    ("seeds: [1]\nseeds: [2]\n", "the key seeds is there twice"),
    ("seeds: [042, 043]\n", "YAML takes 042 for 34."),
    ("sft: {learning_rate: 1:30.0}\n", "YAML takes 1:30.0 for 90.0."),
    # Read by Snakemake before our check is; the README says which file it may mean.
    ("- a list\n", "Config file must be given as JSON or YAML with keys at top level"),
    ("# a remark\n", "Config file must be given as JSON or YAML with keys at top level"),
]  # fmt: skip


@pytest.mark.parametrize(("overlay", "message"), CONFIGS, ids=str)
def test_config(overlay, message):
    """All but those that are no YAML mapping are found by the check that the Snakefile calls."""
    data = overlay if isinstance(overlay, dict) else yaml.safe_load(overlay)
    with pytest.raises(UserError) as refusal:
        check_figures(load_config(merge(tiny_yaml(), data)))
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("overlay", "message"),
    [*CONFIGS[::8], *CONFIG_FILES, (teacher("$(touch hacked)"), NAMES)],
    ids=str,
)
def test_config_stops_the_workflow_before_any_job(finished, overlay, message):
    before = finished.contents()
    done = finished.snakemake(overlay=overlay)
    assert message in done.stderr
    nothing_happened(finished, before, done)
    assert not list(finished.folder.glob("hacked*"))


def test_all_mistakes_are_named_at_once(finished):
    overlay = {"seeds": [-1], "grpo": {"epochs": 0}, "teachers": {"X": {}}}
    done = finished.snakemake(overlay=overlay)
    for message in ("4 mistakes in the config", "seeds.0", "grpo.epochs", "teachers.X"):
        assert message in done.stderr


def test_an_overlay_in_json_with_tabs_that_takes_a_figure_out(finished):
    overlay = json.dumps({"figures": {"fig1_rlvr_overturns": None}}, indent="\t")
    done = finished.snakemake("--dry-run", "--nolock", overlay=overlay)
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in done.stdout + done.stderr
    target = ["results/fig1_rlvr_overturns.pdf"]
    done = finished.snakemake("--dry-run", "--nolock", overlay=overlay, targets=target)
    assert "no figure is named fig1_rlvr_overturns" in done.stdout + done.stderr


def test_a_list_on_the_command_line(finished):
    """Snakemake takes what is inside brackets for text."""
    before = finished.contents()
    done = finished.snakemake("--config", "seeds=[7]")
    assert "seeds.0: found '7'" in done.stderr
    assert "use --configfile" in done.stderr
    nothing_happened(finished, before, done)


def test_config_yaml_that_does_not_parse_is_located(clone):
    (clone.folder / "config.yaml").write_text("seeds: [1, 2\ngrpo: {}\n")
    done = clone.snakemake("--dry-run")
    assert done.returncode != 0
    assert "config.yaml is neither JSON nor plain YAML" in done.stdout + done.stderr
    assert "line 2, column" in done.stdout + done.stderr


# --- Targets that no config names -----------------------------------------------------------------

TARGETS = [
    ("fig9_nothing.pdf", "no figure is named fig9_nothing. Figures: fig1_rlvr_overturns, "),
    ("tables/nothing.parquet", "no study is named nothing. Studies: "),
    ("sft/teacher=strong/seed=1/metrics.parquet", "names the run sft/teacher=strong/seed=1, "),
    ("sft/teacher=weak/seed=9/metrics.parquet", "no study names the run sft/teacher=weak/seed=9, "),
    ("sft/teacher=weak/seed=01/metrics.parquet", "names the run sft/teacher=weak/seed=01, "),
    ("grpo/recipe=no/teacher=weak/beta=0/seed=1/metrics.parquet", "names the run grpo/recipe=no/"),
    ("grpo/recipe=base/teacher=weak/beta=0.0/seed=1/metrics.parquet", "write beta as there: 0.04"),
    ("preferences/teacher=weak/labels=truthful/pairs=77/seed=1/pairs.parquet", "study names the"),
    ("preferences/teacher=cold/labels=truthful/pairs=20/seed=1/pairs.parquet", "study names the"),
    ("reward_model/reward=exact/teacher=weak/seed=1/model.safetensors", "names the run rewar"),
    ("reward_model/reward=nothing/teacher=weak/seed=1/model.safetensors", "or one that needs it"),
    ("reward_model/reward=learned_200/teacher=cold/seed=1/model.safetensors", "or one that needs"),
    ("dpo/recipe=dpo_lr1/teacher=weak/beta=0/seed=1/metrics.parquet", "no study names the run dpo"),
    ("dpo/recipe=base/teacher=weak/beta=0.1/seed=1/metrics.parquet", "no study names the run dpo/"),
    ("grpo/recipe=dpo_lr1/teacher=weak/beta=0.1/seed=1/metrics.parquet", "names the run grpo/reci"),
    ("grpo/recipe=base/teacher=weak/beta=0/seed=1/other.parquet", "No rule to produce"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "message"), TARGETS, ids=str)
def test_target(finished, target, message):
    before = finished.contents()
    done = finished.snakemake(targets=[f"results/{target}"])
    assert message in done.stdout + done.stderr
    nothing_happened(finished, before, done)


# --- Files that are not what they should be -------------------------------------------------------


@pytest.fixture(scope="module")
def commands(finished):
    """What Snakemake prints for each job of the tiny workflow."""
    return finished.printed_commands()


def command_for(commands, target):
    """The arguments of the stage that makes a file."""
    (making,) = (
        command
        for command in commands
        for flag, value in pairwise(command)
        if flag.endswith("-out") and value == target
    )
    return making.copy()


def refused(workflow, arguments, *messages):
    """The stage fails with these words, no stack trace, and leaves every file as it was."""
    before = workflow.contents()
    done = workflow.stage(*arguments)
    assert done.returncode == 1
    assert done.stderr.count("error: ") == 1
    for message in messages:
        assert message in done.stderr
    assert workflow.contents() == before


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path):
    path.write_bytes(b"")


def removed(path):
    path.unlink()


def made_a_folder(path):
    path.unlink()
    path.mkdir()


def pickled(path):
    path.write_bytes(pickle.dumps({"head.weight": np.zeros(3)}))


def saved_by_torch(path):
    weights = {name: tensor.clone() for name, tensor in load_file(path).items()}
    path.unlink()
    torch.save(weights, path)


def metadata(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata()


def of_another_architecture(path):
    tensors = named(initial_values(FULL_SIZE, seed=0), FULL_SIZE)
    save_file({name: torch.from_numpy(x) for name, x in tensors.items()}, path, metadata(path))


def of_another_dtype(path):
    tensors = {name: tensor.double() for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata(path))


def without_provenance(path):
    save_file(load_file(path), path)


def of_another_version(path):
    made_by = json.loads(metadata(path)["provenance"]) | {"settings": {"teacher": "weak"}}
    save_file(load_file(path), path, {"provenance": json.dumps(made_by)})


def with_a_weight_that_is_not_finite(path):
    tensors = load_file(path)
    tensors["head.bias"][0] = float("nan")
    save_file(tensors, path, metadata(path))


UNREADABLE = "not a readable safetensors file"
ANOTHER = "its weights are not of the architecture that its metadata names"
CHECKPOINTS = [
    (truncated, UNREADABLE),
    (emptied, UNREADABLE),
    (pickled, UNREADABLE),
    (saved_by_torch, UNREADABLE),
    (made_a_folder, UNREADABLE),
    (removed, "there is no such checkpoint"),
    (of_another_architecture, ANOTHER),
    (of_another_dtype, "found float64 (13,), expected float32 (13,)"),
    (without_provenance, "its metadata does not say what made it"),
    (of_another_version, "does not hold the settings of an SFT run of this version"),
    (with_a_weight_that_is_not_finite, "holds weights that are not finite"),
]


@pytest.mark.parametrize(
    ("damage", "message"), CHECKPOINTS, ids=lambda x: getattr(x, "__name__", "")
)
def test_checkpoint(scratch, commands, damage, message):
    command = command_for(commands, f"{GRPO}/policy.safetensors")
    damage(scratch.folder / SFT)
    refused(scratch, command, f"error: {SFT}: ", message)


def swap(command, flag, path):
    """The command with another file for a flag."""
    command[command.index(flag) + 1] = path
    return command


PAIRS = "results/preferences/teacher=weak/labels={}/pairs={}/seed=1"
MODEL = "results/reward_model/reward={}/teacher=weak/seed=1/model.safetensors"
LEARNED_RUN = "results/grpo/recipe=learned_200/teacher=weak/beta=0/seed=1"
DPO_RUN = "results/dpo/recipe=dpo_lr1/teacher=weak/beta=0.1/seed=1"


@pytest.mark.parametrize(
    ("target", "flag", "path", "message"),
    [
        (MODEL.format("learned_200"), "--pairs", PAIRS.format("habitual", 40), "holds the pairs"),
        (MODEL.format("learned_200"), "--pairs", PAIRS.format("truthful", 30), "'pairs': 30"),
        (f"{DPO_RUN}/policy.safetensors", "--pairs", PAIRS.format("habitual", 40), "'habitual'"),
        (f"{DPO_RUN}/policy.safetensors", "--fresh-pairs", PAIRS.format("truthful", 20), "holds"),
    ],
)
def test_other_pairs(scratch, commands, target, flag, path, message):
    file = "fresh" if flag == "--fresh-pairs" else "pairs"
    command = swap(command_for(commands, target), flag, f"{path}/{file}.parquet")
    refused(scratch, command, f"error: {path}/{file}.parquet: ", message)


@pytest.mark.parametrize(
    "target",
    [
        f"{GRPO}/policy.safetensors",
        f"{DPO_RUN}/policy.safetensors",
        MODEL.format("learned_200"),
        f"{PAIRS.format('truthful', 20)}/pairs.parquet",
    ],
)
def test_the_sft_policy_of_another_teacher(scratch, commands, target):
    other = SFT.replace("weak", "cold")
    command = swap(command_for(commands, target), "--sft-policy", other)
    refused(scratch, command, f"error: {other}: holds the SFT policy of", "'teacher': 'cold'")


def test_the_reward_model_of_another_reward_or_none(scratch, commands):
    command = command_for(commands, f"{LEARNED_RUN}/policy.safetensors")
    other = MODEL.format("learned_800")
    refused(scratch, swap(command.copy(), "--reward-model", other), f"{other}: holds the reward m")
    wrong = "its weights are not of the architecture"
    refused(scratch, swap(command.copy(), "--reward-model", SFT), f"error: {SFT}: ", wrong)
    index = command.index("--reward-model")
    refused(scratch, command[:index] + command[index + 2 :], "is learned: it needs --reward-model")
    exact = command_for(commands, f"{GRPO}/policy.safetensors")
    refused(scratch, [*exact, "--reward-model", other], "is a rule: it takes no --reward-model")


def test_a_reward_on_the_command_line_is_checked(scratch, commands):
    command = command_for(commands, f"{GRPO}/policy.safetensors")
    for reward, message in (
        ('{"kind": "exact", "pairs": 3}', "reward.pairs: Extra inputs are not permitted"),
        ('{"kind": "exat"}', "Input tag 'exat'"),
        ('{"kind":', "Missing end delimiter"),
    ):
        refused(scratch, swap(command.copy(), "--reward", reward), message)


def test_dpo_at_beta_0_has_nothing_to_learn(scratch, commands):
    command = command_for(commands, f"{DPO_RUN}/policy.safetensors")
    refused(scratch, swap(command, "--run.beta", "0"), "beta is 0, at which DPO has nothing to")


def replaced_column(path, name, values):
    """The file with other values, or none, in a column; all the rest as it was."""
    table = pq.read_table(path, partitioning=None)
    index = table.schema.get_field_index(name)
    table = table.remove_column(index)
    if values is not None:
        table = table.add_column(index, name, values)
    pq.write_table(table, path)


def missing_a_column(path):
    replaced_column(path, "kl", None)


def of_a_wrong_type(path):
    table = pq.read_table(path, partitioning=None)
    replaced_column(path, "kl", table["kl"].cast(pa.string()))


def with_a_nan(path):
    table = pq.read_table(path, partitioning=None)
    replaced_column(path, "kl", pa.array([float("nan")] * len(table)))


def cut_short(path):
    table, made_by = read_parquet(path, METRICS)
    write_parquet(path, table.slice(0, 3), METRICS, made_by)


def of_another_run(path):
    path.write_bytes((path.parent.parent / "seed=2" / path.name).read_bytes())


def made_with_other_settings(path):
    table, made_by = read_parquet(path, METRICS)
    made_by["settings"]["grpo"]["learning_rate"] = 0.5
    write_parquet(path, table, METRICS, made_by)


def of_text(path):
    path.write_text("iteration,kl\n0,0.0\n")


def without_metadata(path):
    pq.write_table(pq.read_table(path, partitioning=None).replace_schema_metadata(), path)


METRICS_FILES = [
    (truncated, "not a readable Parquet file"),
    (emptied, "not a readable Parquet file"),
    (of_text, "not a readable Parquet file"),
    (pickled, "not a readable Parquet file"),
    (removed, "there is no such file"),
    (missing_a_column, "column kl is missing, expected double"),
    (of_a_wrong_type, "column kl is string, expected double"),
    (with_a_nan, "column kl holds numbers that are not finite"),
    (cut_short, "its iterations are not 0 to 6"),
    (of_another_run, "'seed': 2}, not the one that its path names"),
    (without_metadata, "its metadata does not say what made it"),
    (made_with_other_settings, "were not all made with the same settings"),
]


@pytest.mark.parametrize(
    ("damage", "message"), METRICS_FILES, ids=lambda x: getattr(x, "__name__", "")
)
def test_metrics(scratch, commands, damage, message):
    command = command_for(commands, TABLE)
    damage(scratch.folder / GRPO / "metrics.parquet")
    refused(scratch, command, message)


def of_sft(path):
    path.write_bytes((path.parents[1] / "sft/teacher=weak/seed=1/metrics.parquet").read_bytes())


def of_another_study(path):
    path.write_bytes(path.with_name("cold_start.parquet").read_bytes())


TABLES = [
    (truncated, f"{TABLE}: not a readable Parquet file"),
    (missing_a_column, f"{TABLE}: not a file that this version of rlvr can read. column kl is"),
    (with_a_nan, "column kl holds numbers that are not finite"),
    (of_sft, "column recipe is missing"),
    (of_another_study, "the tables hold no run of recipe base, teacher weak, beta 0. They hold"),
]  # fmt: skip


@pytest.mark.parametrize("target", ["results/fig1_rlvr_overturns.pdf", "results/claims.md"])
@pytest.mark.parametrize(("damage", "message"), TABLES, ids=lambda x: getattr(x, "__name__", ""))
def test_table(scratch, commands, damage, message, target):
    if (damage, target) == (of_another_study, "results/claims.md"):
        pytest.skip("the claims say 'not measured' where a run is missing")
    command = command_for(commands, target)
    damage(scratch.folder / TABLE)
    refused(scratch, command, message)


# --- Stages by hand -------------------------------------------------------------------------------


def test_command_line_mistakes_are_all_named(scratch, commands):
    command = command_for(commands, f"{GRPO}/policy.safetensors")
    command[command.index("--grpo.epochs") + 1] = "-2"
    command[command.index("--run.beta") + 1] = "-1"
    refused(
        scratch, command, "2 mistakes in the command line", "grpo.epochs: found '-2'", "run.beta:"
    )


@pytest.mark.parametrize("method", ["dpo", "sft"])
def test_a_run_of_another_method_is_refused(scratch, commands, method):
    command = command_for(commands, f"{GRPO}/policy.safetensors")
    command[command.index("--run.method") + 1] = method
    refused(scratch, command, "run: found", "Run.method is not the method of this stage")


def test_the_environment_is_not_read(scratch, commands, monkeypatch):
    command = command_for(commands, TABLE)
    for name in ("run", "policy", "engine", "grpo", "seeds"):
        monkeypatch.setenv(name, "nonsense")
    assert scratch.stage(*command).returncode == 0


def test_training_that_diverges_says_so(scratch, commands):
    command = command_for(commands, SFT)
    command[command.index("--sft.learning-rate") + 1] = "1e30"
    refused(scratch, command, "the loss is not finite", "a smaller sft.learning_rate")


def test_a_failed_job_shows_its_message_and_the_next_run_makes_up_for_it(scratch):
    """Through Snakemake, as `make figures` calls it: a damaged checkpoint, then it removed."""
    path = scratch.folder / SFT
    before = scratch.products()
    path.write_bytes(b"no checkpoint")
    done = scratch.snakemake("--quiet", "host", "reason")
    assert done.returncode != 0
    assert f"error: {SFT}: not a readable safetensors file" in done.stdout + done.stderr
    assert not list(scratch.folder.rglob("*.partial"))
    # The failed run's outputs are gone, and figures made before it are not taken for finished.
    assert scratch.snakemake().returncode != 0
    path.unlink()
    last = scratch.snakemake()
    assert last.returncode == 0, last.stdout + last.stderr
    assert scratch.products() == before
