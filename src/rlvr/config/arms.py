"""Arms: runs that differ in their seeds alone. Here are those that figures and claims name."""

from typing import NamedTuple

BASE = "base"
"""The recipe that changes nothing."""


class Arm(NamedTuple):
    """Runs that differ in their seeds alone."""

    recipe: str
    teacher: str
    beta: float

    def __str__(self) -> str:
        """The arm in words, for messages."""
        return f"recipe {self.recipe}, teacher {self.teacher}, beta {self.beta:g}"


WEAK = Arm(BASE, "weak", 0.0)
COLD = Arm("short", "cold", 0.0)

PARTIAL = Arm("document_b", "partial", 0.04)
PARTIAL_FREE = PARTIAL._replace(beta=0.0)
GROUPS_OF_16 = Arm("document_b_g16", "partial", 0.04)
GROUPS_OF_16_DOUBLE = Arm("document_b_g16_double", "partial", 0.04)

LEARNING_RATES = {"1e-4": "lr1", "3e-4": "lr3", "1e-3": "lr10"}
"""How recipes name the learning rates of the KL sweep."""
FREE = {rate: Arm(f"advantage_t07_{lr}", "partial", 0.0) for rate, lr in LEARNING_RATES.items()}
ANCHORED = {rate: Arm(f"loss_t07_{lr}", "partial", 0.04) for rate, lr in LEARNING_RATES.items()}

PAIRS = (200, 800, 4000)
"""How many pairs the learned rewards of figure 6 were learned from."""
ANCHORS = (0.1, 0.3, 1.0, 3.0)
"""Strengths of the KL penalty on a learned reward."""
LEARNED = {pairs: Arm(f"learned_{pairs}", "weak", 0.0) for pairs in PAIRS}
LEARNED_LOSS = {pairs: Arm(f"learned_{pairs}_loss", "weak", ANCHORS[0]) for pairs in PAIRS}
BIASED = Arm("biased_4000", "weak", 0.0)
BIASED_ANCHORED = BIASED._replace(beta=1.0)

DPO_RATES = {"1e-4": "lr1", "3e-5": "lr03"}
"""How recipes name the learning rates of DPO."""
DPO_BETAS = (0.1, 0.5)
DPO = {
    (rate, beta): Arm(f"dpo_{lr}", "weak", beta)
    for rate, lr in DPO_RATES.items()
    for beta in DPO_BETAS
}
