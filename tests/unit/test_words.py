"""What the pages say of the task and of theory in words, against what the code computes."""

import re

import numpy as np
import pytest
from helpers import FULL_SIZE, ROOT

from rlvr.config.values import PROMPTS
from rlvr.figures import fig5_kl_anchor
from rlvr.figures.kl_sweep import MOST_RATES
from rlvr.policy.parameters import parameter_count
from rlvr.results import theory
from rlvr.task.addition import all_additions
from rlvr.task.splits import split_prompts

CARRY = all_additions().carry()


def page(name):
    """A page's text in one line, without emphasis."""
    return re.sub(r"\s+", " ", (ROOT / name).read_text("utf-8")).replace("*", "")


def test_what_a_carry_prompt_is():
    """The README's definition, taken literally, on every prompt."""
    words = (
        "a carry prompt one in which a column, with what is carried into it, adds up to ten or "
        f"more: {CARRY.sum():,} of the {PROMPTS:,}"
    )
    assert words in page("README.md")
    for a, b, carry in zip(*all_additions(), CARRY, strict=True):
        carried, columns = 0, []
        for place in (1, 10):
            columns.append(a // place % 10 + b // place % 10 + carried)
            carried = int(columns[-1] >= 10)
        assert carry == any(column >= 10 for column in columns)


def both_ways(q, group_size):
    return q**group_size + (1 - q) ** group_size


SENTENCES = [
    ("README.md", f"a Transformer with {parameter_count(FULL_SIZE):,} parameters"),
    ("docs/templates/fig1_rlvr_overturns.md", f"of which {CARRY.sum():,} need a carry"),
    ("docs/templates/fig2_unhackable_reward.md", f"{theory.CARRY_SHARE:.4f} ln(1/q)"),
    (
        "docs/templates/fig3_cold_start.md",
        f"{1 - theory.CARRY_SHARE:.4f} + {theory.CARRY_SHARE:.4f} (q^8 + (1 - q)^8)",
    ),
]


@pytest.mark.parametrize(("name", "words"), SENTENCES)
def test_numbers_of_the_task(name, words):
    assert words in page(name)


def test_what_teachers_forget(config):
    for teacher, forgotten in {"weak": 0.7, "cold": 1.0, "partial": 0.0}.items():
        assert 1 - config.teachers[teacher].truth_probability == forgotten
    assert "weak: forgets seven carries in ten, cold: all, partial: is right" in page("README.md")
    weak = "forgets to carry in seven of ten examples that need it"
    assert weak in page("docs/templates/fig1_rlvr_overturns.md")


def test_groups_without_signal_at_q_of_a_twentieth():
    words = "At q = 0.05 two carry groups of three give no signal at first"
    assert words in page("docs/templates/fig1_rlvr_overturns.md")
    assert both_ways(0.05, 8) == pytest.approx(2 / 3, abs=0.01)


def test_what_is_held_out(config):
    split = split_prompts(config.teachers["partial"].split)
    words = "{:,} prompts to train on, {:,} for validation, {:,} held out".format(*map(len, split))
    assert words in page("docs/templates/fig4_partial_sft.md")
    seen = np.concatenate([split.train, split.validation])
    mirrors = 100 * (seen % 100) + seen // 100
    assert not np.isin(split.exam, np.concatenate([seen, mirrors])).any()
    words = "what is held out has been seen in neither order"
    assert words in page("docs/templates/fig4_partial_sft.md")


def test_how_many_jobs_train(update, config):
    assert update.jobs_in_words(config) in page("README.md"), "`make docs` counts them anew"


def test_figure_5_has_as_many_colours_as_it_says():
    assert len(fig5_kl_anchor.COLORS) == MOST_RATES
    assert "The figure has colours for five learning rates." in page("docs/how-to.md")
    assert MOST_RATES == 5


def test_how_fast_the_readme_says_that_it_goes():
    (row,) = re.findall(r"\| figure 1: carry accuracy gets there .*", page("docs/claims.md"))
    iterations = [int(n) for n in row.split(" | ")[2].split(" / ")]
    assert f"near 1, above 0.9 within {max(iterations)} iterations" in page("README.md")
