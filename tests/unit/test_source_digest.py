"""The digest of a stage's code, on a scratch copy of the package that the tests edit."""

import importlib.metadata

import pytest
from helpers import forget_digests

from rlvr.jobs import digest as module


def digest(stage):
    forget_digests()
    return module.source_digest(stage)


def append(path, text):
    path.write_text(path.read_text() + text)


@pytest.mark.parametrize(
    ("edited", "changes", "keeps"),
    [
        ("grpo.py", ["rlvr.methods.grpo"], ["rlvr.methods.sft", "rlvr.results.table", "rlvr.claims.ledger"]),
        ("addition.py", ["rlvr.methods.grpo", "rlvr.methods.sft"], ["rlvr.results.table", "rlvr.claims.ledger"]),
        ("streams.py", ["rlvr.methods.grpo", "rlvr.methods.sft"], ["rlvr.results.table"]),  # two imports away
        ("theory.py", ["rlvr.claims.ledger", "rlvr.figures.fig1_rlvr_overturns"], ["rlvr.methods.grpo"]),
        ("figures/fig1_rlvr_overturns.py", ["rlvr.figures.fig1_rlvr_overturns"],
         ["rlvr.figures.fig2_unhackable_reward", "rlvr.claims.ledger"]),
        ("figures/style.py", ["rlvr.figures.fig1_rlvr_overturns",
                              "rlvr.figures.fig3_cold_start"], ["rlvr.claims.ledger"]),
        ("records.py", ["rlvr.methods.sft", "rlvr.methods.grpo", "rlvr.results.table", "rlvr.claims.ledger"], []),
        ("__init__.py", ["rlvr.methods.sft", "rlvr.claims.ledger"], []),
        ("settings.py", [], ["rlvr.methods.sft", "rlvr.methods.grpo", "rlvr.claims.ledger"]),  # values stand in params
    ],
)  # fmt: skip
def test_an_edit_reaches_exactly_the_stages_that_import_it(package, edited, changes, keeps):
    before = {stage: digest(stage) for stage in changes + keeps}
    append(package / edited, "\n\nADDED = 1\n")
    after = {stage: digest(stage) for stage in changes + keeps}
    assert [stage for stage in before if before[stage] != after[stage]] == changes


def test_comments_docstrings_and_layout_do_not_count(package):
    before = digest("rlvr.methods.grpo")
    path = package / "grpo.py"
    text = path.read_text()
    text = text.replace('"""GRPO against', '"""A new docstring. GRPO against')
    text = text.replace('    """The clipped surrogate of each', '    """The surrogate of each')
    text = text.replace("    centred = rewards", "\n    # a comment\n    centred   =   rewards")
    assert text.count("a comment") == text.count("The surrogate of each") == 1
    path.write_text(text + "\n\n# the end\n\n\n")
    assert digest("rlvr.methods.grpo") == before
    path.write_text(text.replace("rewards - rewards.mean(", "rewards + rewards.mean("))
    assert digest("rlvr.methods.grpo") != before


def test_a_module_that_does_not_exist_is_an_error(package):
    with pytest.raises(ModuleNotFoundError, match=r"rlvr\.nothing"):
        digest("rlvr.nothing")


@pytest.mark.parametrize(
    ("stage", "packages"),
    [
        ("rlvr.methods.sft", ["numpy", "pyarrow", "safetensors", "torch"]),
        ("rlvr.results.table", ["pyarrow"]),
        ("rlvr.figures.fig1_rlvr_overturns", ["matplotlib", "pandas", "pyarrow"]),
    ],
)
def test_packages_are_those_that_the_stage_computes_with(stage, packages):
    versions = module.package_versions(stage)
    assert list(versions) == packages
    for package, version in versions.items():
        assert importlib.metadata.version(package).split("+")[0] == version
