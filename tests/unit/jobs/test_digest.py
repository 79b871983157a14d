"""The digest of a stage's code, on a scratch copy of the package that the tests edit."""

import importlib.metadata

import pytest
from helpers import forget_digests

from rlvr.jobs import digest as module


def digest(*modules):
    forget_digests()
    return module.source_digest(*modules)


def append(path, text):
    path.write_text(path.read_text() + text)


SFT, GRPO, TABLE, CLAIMS = (
    "rlvr.methods.sft",
    "rlvr.methods.grpo",
    "rlvr.results.table",
    "rlvr.claims.ledger",
)
FIGURE_1, FIGURE_2 = "rlvr.figures.fig1_rlvr_overturns", "rlvr.figures.fig2_unhackable_reward"


@pytest.mark.parametrize(
    ("edited", "changes", "keeps"),
    [
        ("methods/grpo.py", [GRPO], [SFT, TABLE, CLAIMS]),
        ("task/addition.py", [GRPO, SFT], [TABLE, CLAIMS]),
        ("task/streams.py", [GRPO, SFT], [TABLE]),  # two imports away
        ("results/theory.py", [CLAIMS, FIGURE_1], [GRPO]),
        ("figures/fig1_rlvr_overturns.py", [FIGURE_1], [FIGURE_2, CLAIMS]),
        ("figures/style.py", [FIGURE_1, FIGURE_2], [CLAIMS]),
        ("jobs/records.py", [SFT, GRPO, TABLE, CLAIMS], []),
        ("__init__.py", [SFT, CLAIMS], []),
        # Values stand in params.
        ("config/settings/studies.py", [], [SFT, GRPO, TABLE, CLAIMS]),
        ("config/methods/grpo.py", [], [SFT, GRPO, TABLE, CLAIMS]),
        ("task/rewards/exact.py", [GRPO], [SFT]),  # the truth, whatever the reward
        ("task/rewards/units_only.py", [], [SFT, GRPO]),  # found by its name, see below
        ("methods/learned_reward.py", [], [SFT, GRPO]),
    ],
)
def test_an_edit_reaches_exactly_the_stages_that_import_it(package, edited, changes, keeps):
    before = {stage: digest(stage) for stage in changes + keeps}
    append(package / edited, "\n\nADDED = 1\n")
    after = {stage: digest(stage) for stage in changes + keeps}
    assert [stage for stage in before if before[stage] != after[stage]] == changes


def test_a_module_found_by_its_name_counts_where_it_is_named(package):
    exact, other = "rlvr.task.rewards.exact", "rlvr.task.rewards.other"
    (package / "task/rewards/other.py").write_text("ANYTHING = 1\n")
    before = [digest(GRPO, reward) for reward in (exact, other)]
    append(package / "task/rewards/other.py", "\n\nADDED = 1\n")
    after = [digest(GRPO, reward) for reward in (exact, other)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False]


def test_comments_docstrings_and_layout_do_not_count(package):
    before = digest(GRPO)
    path = package / "methods/grpo.py"
    text = path.read_text()
    text = text.replace('"""GRPO on', '"""A new docstring. GRPO on')
    text = text.replace('    """The clipped surrogate of each', '    """The surrogate of each')
    text = text.replace("    centred = _centred", "\n    # a comment\n    centred   =   _centred")
    assert text.count("a comment") == text.count("The surrogate of each") == 1
    path.write_text(text + "\n\n# the end\n\n\n")
    assert digest(GRPO) == before
    path.write_text(text.replace("rewards - rewards.mean(", "rewards + rewards.mean("))
    assert digest(GRPO) != before


def test_the_code_of_c_counts_and_its_comments_do_not(package):
    engine = "rlvr.policy.engines.compiled"
    before, plain = digest(engine), digest("rlvr.policy.engines.torch")
    path = package / "policy/engines/compiled/engine.c"
    text = path.read_text()
    path.write_text(text.replace("/* Adds to dq", "/* Puts on\n * dq") + "\n\n/* the end */\n")
    assert path.read_text().count("Puts on") == 1
    assert digest(engine) == before
    path.write_text(text.replace("real x = ", "real  x=", 1).replace("(real)1e-5", "(real)2e-5"))
    assert digest(engine) != before
    assert digest("rlvr.policy.engines.torch") == plain


def test_a_module_that_does_not_exist_is_an_error(package):
    with pytest.raises(ModuleNotFoundError, match=r"rlvr\.nothing"):
        digest("rlvr.nothing")


@pytest.mark.parametrize(
    ("stage", "packages"),
    [
        (SFT, ["numpy", "pyarrow", "safetensors"]),
        (TABLE, ["numpy", "pyarrow"]),
        (FIGURE_1, ["matplotlib", "numpy", "pandas", "pyarrow"]),
    ],
)
def test_packages_are_those_that_the_stage_computes_with(stage, packages):
    versions = module.package_versions(stage)
    assert list(versions) == packages
    for package, version in versions.items():
        assert importlib.metadata.version(package).split("+")[0] == version
