"""What figures show is in their studies, or the config is refused before anything is trained."""

import pytest
import yaml
from helpers import ROOT, merge

from rlvr.config.arms import COLD, WEAK, Arm
from rlvr.config.settings.names import FIGURES
from rlvr.config.settings.whole import load_config
from rlvr.errors import UserError
from rlvr.figures import shown
from rlvr.figures.shown import arms_of, check_figures


def refusal(config: dict) -> str:
    with pytest.raises(UserError) as caught:
        check_figures(load_config(config))
    return str(caught.value)


def test_config_yaml_has_all_that_its_figures_show(config):
    check_figures(config)


def test_each_figure_of_the_package_is_in_the_config(config):
    missing = set(FIGURES) - set(config.figures)
    assert not missing, f"config.yaml names no {missing}: add its entry under `figures`"


def test_a_lack_is_named_with_the_figures_that_miss_it(raw_config):
    raw_config["studies"]["weak_start"]["betas"] = [0.04]
    first, *lines = refusal(raw_config).splitlines()
    assert first == "4 mistakes in the config's figures:"
    assert lines[0] == (
        "  figures.fig1_rlvr_overturns.studies: none of weak_start has recipe base, teacher weak, "
        "beta 0, which this figure shows."
    )
    assert [line.split(".")[1] for line in lines] == [*FIGURES[:3], "fig8_trilogy"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes the module of a figure, of which ARMS is asked."""
    monkeypatch.setattr(shown, "FOLDER", tmp_path)

    def write(text: str) -> str:
        (tmp_path / "fig.py").write_text(f"import no_such_module\n{text}\n")
        return "fig"

    return write


@pytest.mark.parametrize(
    ("text", "arms"),
    [
        ("ARMS = (WEAK, COLD)", (WEAK, COLD)),
        ("ARMS = [COLD, Arm('x', 'weak', 0.1)]", (COLD, Arm("x", "weak", 0.1))),
        ("ARMS: tuple[Arm, ...] = (Arm('x', 'weak', 0),)", (Arm("x", "weak", 0.0),)),
        ("LEGS = (WEAK,)", ()),
    ],
)  # fmt: skip
def test_arms_are_read_without_running_the_module(module, text, arms):
    assert arms_of(module(text)) == arms


@pytest.mark.parametrize(
    "text",
    [
        "ARMS = (WEEK,)",
        "ARMS = (style.ARM,)",
        "ARMS = WEAK",
        "ARMS = (FREE,)",
        "ARMS = tuple(FREE.values())",
        "ARMS = (Arm('x', x, 0.0),)",
        "ARMS = (Arm('x', 'weak', '0'),)",
        "ARMS = (Arm('x', 'weak', beta=0.0),)",
    ],
)
def test_arms_that_cannot_be_read_so_are_refused(module, text):
    with pytest.raises(UserError, match=r"fig\.py, line 2: ARMS is read without running"):
        arms_of(module(text))


# --- Figure 5 -------------------------------------------------------------------------------------


def test_figure_5_runs_what_the_names_of_its_recipes_say(raw_config):
    overlay = yaml.safe_load((ROOT / "extended.yaml").read_text())
    config = load_config(merge(raw_config, overlay))
    for study in config.figures["fig5_kl_anchor"].studies:
        for recipe in config.studies[study].recipes:
            grpo = config.job(recipe).grpo
            placement, temperature, rate = recipe.split("_")
            assert grpo.kl_placement == placement
            assert grpo.temperature == int(temperature[1:]) / 10
            assert grpo.learning_rate == pytest.approx(int(rate[2:]) * 1e-4)


RATES = {f"r{n}": {"iterations": 300, "learning_rate": n * 1e-5} for n in range(1, 7)}
TWIN = {"twin": {"iterations": 300, "group_size": 2}}
KL_SWEEP = [
    ({"figures": {"fig5_kl_anchor": {"iterations": 30}}}, "fig5_kl_anchor: iterations: found 30"),
    ({"recipes": {"advantage_t10_lr1": {"iterations": 280}}}, "runs of advantage_t10_lr1 are not"),
    (
        {
            "recipes": TWIN,
            "studies": {"kl_weak_advantage": {"recipes": ["advantage_t10_lr1", *TWIN]}},
        },
        "one place for recipe twin, teacher weak, beta 0 and recipe advantage_t10_lr1, teacher",
    ),
    (
        {"recipes": RATES, "studies": {"kl_weak_advantage": {"recipes": list(RATES)}}},
        "has colours for 5 learning rates",
    ),
]


@pytest.mark.parametrize(("overlay", "message"), KL_SWEEP)
def test_what_figure_5_could_not_draw_is_refused_before_training(raw_config, overlay, message):
    with pytest.raises(UserError, match=message):
        check_figures(load_config(merge(raw_config, overlay)))
