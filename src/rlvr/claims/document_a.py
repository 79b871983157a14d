"""Document A's claims, each with its measurement, the rule that judges it and the rule's reason.

The rules were fixed before the first result was seen; they are not to be tuned to results.
"""

from math import inf

from rlvr.claims.claim import Claim, Evidence
from rlvr.claims.measurements import (
    change,
    constant,
    first_above,
    largest,
    largest_fall,
    mean_over,
    per_seed,
    predicted,
    value_at,
)
from rlvr.config.arms import COLD, WEAK
from rlvr.results import theory


def parameters(evidence: Evidence) -> dict[int | None, float]:
    """The number of trained parameters, which all runs share."""
    return {None: evidence.studies.provenances[0]["parameters"]}


# --- The claims ----------------------------------------------------------------------------------

CLAIMS = (
    Claim(
        key="base_accuracy",
        statement="weak SFT: greedy accuracy is the share of prompts without a carry",
        unit="fraction",
        document=(0.303, 0.317, 0.326),
        measure=per_seed(WEAK, value_at("accuracy", 0)),
        low=0.2525,
        high=0.3525,
        reason="0.05 around theory's 0.3025: about twice the document's largest deviation, 0.024",
        theory=constant(theory.base_accuracy()),
    ),
    Claim(
        key="base_accuracy_carry",
        statement="weak SFT: greedy accuracy on carry prompts is near 0",
        unit="fraction",
        document=(0.000, 0.036, 0.040),
        measure=per_seed(WEAK, value_at("accuracy_carry", 0)),
        low=0.0,
        high=0.08,
        reason="twice the document's largest value",
        theory=constant(0.0),
    ),
    Claim(
        key="sampled_accuracy",
        statement="weak SFT: a sampled answer is right about half the time",
        unit="fraction",
        document=(0.524, 0.488, 0.518),
        measure=per_seed(WEAK, value_at("success_probability", 0)),
        low=0.4618,
        high=0.5618,
        reason="0.05 around theory's 0.5118: about twice the document's largest deviation, 0.024",
        theory=predicted(WEAK, lambda q, group_size: theory.sampled_accuracy(q)),
    ),
    Claim(
        key="carry_lifted",
        statement="figure 1: GRPO lifts accuracy on carry prompts to 1.00 (iteration 300)",
        unit="fraction",
        document=(1.00,),
        measure=per_seed(WEAK, value_at("accuracy_carry", 300)),
        low=0.995,
        high=1.0,
        reason="1.00 to the two decimals that the document prints",
        theory=constant(1.0),
    ),
    Claim(
        key="carry_lifted_in",
        statement="figure 1: carry accuracy gets there in about 20 iterations (first above 0.9)",
        unit="iterations",
        document=(20,),
        measure=per_seed(WEAK, first_above("accuracy_carry", 0.9, 300)),
        low=0,
        high=30,
        reason="the claim is about speed: half as many again is still 'about 20', and fewer is no "
        "objection; 0.9 is well clear of the noise of single prompts",
    ),
    Claim(
        key="final_accuracy",
        statement="figure 2: greedy accuracy at iteration 600 is 1.00",
        unit="fraction",
        document=(1.000, 1.000, 0.999),
        measure=per_seed(WEAK, value_at("accuracy", 600)),
        low=0.995,
        high=1.0,
        reason="1.00 to two decimals",
        theory=constant(1.0),
    ),
    Claim(
        key="final_kl",
        statement="figure 2: KL to the SFT policy at iteration 600",
        unit="nats per sequence",
        document=(0.95, 0.86, 0.84),
        measure=per_seed(WEAK, value_at("kl", 600)),
        low=0.70,
        high=1.10,
        reason="the range of the document's three seeds, widened on each side by 0.14: about two "
        "standard errors of a batch of 256 whose log-ratios have a standard deviation of about 1",
        theory=predicted(WEAK, lambda q, group_size: theory.kl_floor(q)),
    ),
    Claim(
        key="largest_kl",
        statement="figure 2: largest KL over 600 iterations",
        unit="nats per sequence",
        document=(1.32, 1.39, 1.15),
        measure=per_seed(WEAK, largest("kl", 600)),
        low=0.0,
        high=1.80,
        reason="the document's largest and 30 %: the maximum of 600 noisy values has a long tail",
    ),
    Claim(
        key="about_one_nat",
        statement="figure 2: KL settles at about 1 nat (mean over iterations 501 to 600)",
        unit="nats per sequence",
        document=(1.0,),
        measure=per_seed(WEAK, mean_over("kl", 501, 600)),
        low=0.5,
        high=1.5,
        reason="what rounds to 1 nat",
        theory=predicted(WEAK, lambda q, group_size: theory.kl_floor(q)),
    ),
    Claim(
        key="no_collapse",
        statement="figure 2: nothing collapses over 600 iterations without a KL penalty "
        "(largest fall of greedy accuracy below its best so far)",
        unit="fraction",
        document=(),
        measure=per_seed(WEAK, largest_fall("accuracy", 600)),
        low=0.0,
        high=0.1,
        reason="a fall by a tenth would be seen in the document's figure; exact evaluation has no "
        "noise of its own",
        theory=constant(0.0),
        never=True,
    ),
    Claim(
        key="cold_base_accuracy",
        statement="cold SFT: greedy accuracy is the share of prompts without a carry",
        unit="fraction",
        document=(0.294, 0.311, 0.305),
        measure=per_seed(COLD, value_at("accuracy", 0)),
        low=0.2525,
        high=0.3525,
        reason="as for the weak start",
        theory=constant(theory.base_accuracy()),
    ),
    Claim(
        key="cold_base_accuracy_carry",
        statement="cold SFT: greedy accuracy on carry prompts is 0",
        unit="fraction",
        document=(0.000,),
        measure=per_seed(COLD, value_at("accuracy_carry", 0)),
        low=0.0,
        high=0.0005,
        reason="0.000 to the three decimals that the document prints",
        theory=constant(0.0),
    ),
    Claim(
        key="cold_learns_nothing",
        statement="figure 3: the cold start learns nothing in 300 iterations "
        "(change of greedy accuracy)",
        unit="fraction",
        document=(0.026, -0.019, -0.009),
        measure=per_seed(COLD, change("accuracy", 300)),
        low=-inf,
        high=0.05,
        reason="about twice the document's largest change, 0.026, which it calls nothing",
        theory=constant(0.0),
        difference=True,
        never=True,
    ),
    Claim(
        key="cold_zero_signal",
        statement="figure 3: from the cold start all groups are zero-signal at the end "
        "(mean over iterations 251 to 300)",
        unit="fraction",
        document=(1.00,),
        measure=per_seed(COLD, mean_over("zero_signal_fraction", 251, 300)),
        low=0.995,
        high=1.0,
        reason="1.00 to two decimals",
        theory=predicted(COLD, theory.zero_signal_fraction),
    ),
    Claim(
        key="weak_zero_signal_start",
        statement="figure 3: from the weak start about 0.3 of the groups are zero-signal "
        "in the first batch",
        unit="fraction",
        document=(0.3,),
        measure=per_seed(WEAK, value_at("zero_signal_fraction", 1)),
        low=0.17,
        high=0.51,
        reason="theory's 0.34 and two binomial standard errors of the batch's 32 groups, 0.17",
        theory=predicted(WEAK, theory.zero_signal_fraction),
    ),
    Claim(
        key="weak_zero_signal_end",
        statement="figure 3: from the weak start the zero-signal fraction climbs to near 1 "
        "(mean over iterations 251 to 300)",
        unit="fraction",
        document=(1.0,),
        measure=per_seed(WEAK, mean_over("zero_signal_fraction", 251, 300)),
        low=0.9,
        high=1.0,
        reason="nine groups in ten",
        theory=constant(1.0),
    ),
    Claim(
        key="parameters",
        statement="the policy has about 120k parameters",
        unit="parameters",
        document=(120_000,),
        measure=parameters,
        low=108_000,
        high=132_000,
        reason="within 10 % of the number",
    ),
    Claim(
        key="run_time",
        statement="training takes about 40 minutes on a CPU for three seeds, a third of that each "
        "(sum over a seed's jobs)",
        unit="minutes",
        document=(40 / 3,),
        measure=lambda evidence: evidence.minutes or {},
        low=0,
        high=40 / 3,
        reason="the claim is about cost: less is no objection",
        timed=True,
    ),
)
