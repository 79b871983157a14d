"""The ledger: measurements and verdicts on tables made by hand."""

import re
from html import unescape
from math import inf, isnan, nan
from operator import sub

import pandas as pd
import pytest

from rlvr.claims import contrasts, document_a, document_b, measurements
from rlvr.claims.claim import CLAIMS, Claim, Evidence, judge, verdict
from rlvr.claims.ledger import training_minutes
from rlvr.claims.pages import as_html, as_markdown
from rlvr.config.arms import ANCHORED, BIASED, COLD, DPO, FREE, LEARNED, WEAK, Arm
from rlvr.errors import UserError
from rlvr.results.studies import Studies


def run(**columns):
    frame = pd.DataFrame(columns)
    return frame.set_index("iteration")


RUN = run(
    iteration=[0, 1, 2, 3, 4],
    kl=[nan, 0.0, 0.5, 2.0, 1.0],
    accuracy=[0.3, nan, 0.95, nan, 0.9],
    kl_floor=[0.0, nan, 0.8, nan, 0.7],
    reward_mean=[nan, 0.5, 0.4, 0.4, 0.4],
)


def test_measurements_by_hand():
    assert measurements.value_at("kl", 3)(RUN) == 2.0
    assert measurements.mean_over("kl", 2, 4)(RUN) == pytest.approx(3.5 / 3)
    assert measurements.largest("kl", 4)(RUN) == 2.0
    assert measurements.change("accuracy", 4)(RUN) == pytest.approx(0.6)
    assert measurements.first_above("accuracy", 0.9, 4)(RUN) == 2
    assert measurements.first_above("accuracy", 0.99, 4)(RUN) == inf
    assert measurements.largest_fall("accuracy", 4)(RUN) == pytest.approx(0.05)
    assert measurements.best("accuracy", 4)(RUN) == 0.95
    assert measurements.fall_from_best("accuracy", 4)(RUN) == pytest.approx(0.05)
    assert measurements.growth("kl", 2, 4)(RUN) == pytest.approx((2 + 1) / 2 - (0 + 0.5) / 2)
    assert measurements.kl_above_floor(3, 4)(RUN) == pytest.approx(3.5 / 3 - 0.7)


@pytest.mark.parametrize(
    "measure",
    [
        measurements.value_at("kl", 9),
        measurements.mean_over("kl", 2, 9),
        measurements.largest("kl", 9),
        measurements.change("accuracy", 9),
        measurements.first_above("accuracy", 0.99, 9),
        measurements.largest_fall("accuracy", 9),
        measurements.best("accuracy", 9),
        measurements.fall_from_best("accuracy", 9),
        measurements.growth("kl", 2, 9),
        measurements.kl_above_floor(3, 9),
        measurements.first_pierced(9),
    ],
)
def test_a_run_that_is_too_short_measures_nothing(measure):
    assert isnan(measure(RUN))


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        ([True, True, True], "holds"),
        ([True, False, True], "holds on 2 of 3 seeds"),
        ([False, False], "fails"),
        ([True, None], "not measured"),
        ([], "not measured"),
    ],
)
def test_verdicts(holds, expected):
    assert verdict(holds, per_seed=True) == expected


MINUTES = {1: 12.0, 2: 13.0}


def claim(values, **changes):
    fields = {
        "key": "k",
        "statement": "s",
        "unit": "fraction",
        "document": (1.0,),
        "measure": lambda evidence: values,
        "low": 0.5,
        "high": 1.0,
        "reason": "r",
    }
    return Claim(**fields | changes)


def test_judging_counts_seeds_and_bounds_what_never_happens():
    row = judge(claim({1: 0.9, 2: 0.4, 3: 1.0}, never=True), None, 0.95)
    assert row["verdict"] == "holds on 2 of 3 seeds"
    assert row["seeds"] == [1, 2, 3]
    assert row["failure_rate_bound"] == pytest.approx(0.8646, abs=1e-4)  # one failure in three
    assert 0.9 < row["interval_high"] < 1.0  # a fraction's interval ends below 1
    assert row["interval_method"] == "logit t"
    difference = judge(claim({1: 0.1, 2: -0.2, 3: 0.0}, difference=True), None, 0.95)
    assert -1 < difference["interval_low"] < -0.1
    assert isnan(judge(claim({1: 0.9}), None, 0.95)["failure_rate_bound"])
    assert judge(claim({None: 0.1}), None, 0.95)["verdict"] == "fails"
    assert judge(claim({1: inf, 2: inf}), None, 0.95)["verdict"] == "fails"
    assert judge(claim({1: nan, 2: 0.9}), None, 0.95)["verdict"] == "not measured"
    assert set(row) == set(CLAIMS.names)


def made_by(arm):
    return {
        "method": "grpo",
        "recipe": arm.recipe,
        "teacher": arm.teacher,
        "parameters": 69_325,
        "settings": {"device": "cpu", "grpo": {"group_size": 8}},
        "sft": {"settings": {"teacher": {"truth_probability": 0.3 if arm == WEAK else 0.0}}},
    }


@pytest.fixture
def studies():
    """Runs that do just what document A says, but for one seed that collapses at the end."""
    frames = []
    for arm, length in ((WEAK, 600), (COLD, 300)):
        for seed in (1, 2):
            weak = arm == WEAK
            iteration = range(length + 1)
            lifted = [1.0 if weak and i >= 20 else 0.0 for i in iteration]
            frame = pd.DataFrame({"iteration": iteration, "accuracy_carry": lifted})
            frame["accuracy"] = 0.3025 + 0.6975 * frame.accuracy_carry
            frame["success_probability"] = [0.5118 if weak else 0.3025, *frame.accuracy[1:]]
            frame["kl"] = [nan, *[0.9 if weak else 0.0] * length]
            frame["zero_signal_fraction"] = [nan, 0.34 if weak else 1.0, *[1.0] * (length - 1)]
            frame[["recipe", "teacher", "beta", "seed"]] = [*arm, seed]
            frames.append(frame)
    frames[1].loc[590:, "accuracy"] = 0.1
    return Studies(pd.concat(frames, ignore_index=True), [made_by(WEAK), made_by(COLD)])


def test_document_a_on_runs_that_do_what_it_says(studies):
    rows = {
        row["claim"]: row
        for row in (judge(c, Evidence(studies, MINUTES), 0.95) for c in document_a.CLAIMS)
    }
    fails = {key for key, row in rows.items() if row["verdict"] != "holds"}
    assert fails == {"final_accuracy", "no_collapse", "parameters"}
    assert rows["no_collapse"]["verdict"] == "holds on 1 of 2 seeds"
    assert rows["no_collapse"]["ours"] == pytest.approx([0, 0.9])
    assert rows["parameters"]["verdict"] == "fails"
    assert rows["weak_zero_signal_start"]["theory"] == pytest.approx(0.3428, abs=5e-5)
    assert rows["cold_zero_signal"]["theory"] == pytest.approx(1)


def test_time_is_kept_out_of_the_record(studies):
    run_time = next(c for c in document_a.CLAIMS if c.key == "run_time")
    assert judge(run_time, Evidence(studies), 0.95)["verdict"] == "see claims.md"
    assert judge(run_time, Evidence(studies, {}), 0.95)["verdict"] == "not measured"
    slow = judge(run_time, Evidence(studies, {1: 12.0, 2: 20.0}), 0.95)
    assert slow["verdict"] == "holds on 1 of 2 seeds"


def test_an_arm_without_runs_is_not_measured(studies):
    weak = Studies(studies.rows(WEAK), [made_by(WEAK)])
    rows = [judge(c, Evidence(weak, {}), 0.95) for c in document_a.CLAIMS]
    missing = {row["claim"] for row in rows if row["verdict"] == "not measured"}
    assert missing == {"run_time"} | {c.key for c in document_a.CLAIMS if c.key.startswith("cold")}
    assert as_markdown(rows, 0.95).count("**not measured**") == len(missing)


def test_a_run_that_diverged_is_not_measured():
    diverged = run(iteration=[0, 1, 2, 3], kl=[nan, 0.5, nan, 0.7])
    assert isnan(measurements.largest("kl", 3)(diverged))
    assert isnan(measurements.mean_over("kl", 1, 3)(diverged))


def test_training_minutes_by_seed(studies, tmp_path):
    for arm in (WEAK, COLD):
        for seed in (1, 2):
            for path in (
                f"grpo/recipe={arm.recipe}/teacher={arm.teacher}/beta=0/seed={seed}",
                f"sft/teacher={arm.teacher}/seed={seed}",
            ):
                assert training_minutes(studies, tmp_path) == {}
                file = tmp_path / f"{path}.jsonl"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f'{{"s": {30.0 * seed}, "h:m:s": "0:00:30"}}\n')
    assert training_minutes(studies, tmp_path) == {1: 2.0, 2: 4.0}
    studies.provenances[1]["settings"]["device"] = "cuda"
    assert training_minutes(studies, tmp_path) == {}


def test_other_seeds_are_named_in_the_row():
    rows = [judge(claim(values), None, 0.95) for values in ({1: 0.9, 2: 0.8}, {2: 0.7}, {})]
    table = [line for line in as_markdown(rows, 0.95).splitlines() if line.startswith("| s")]
    assert "| 0.900 / 0.800 |" in table[0]
    assert "| 2: 0.700 |" in table[1]
    assert "| – |" in table[2]


def test_markdown_has_a_line_and_a_rule_per_claim(studies):
    rows = [judge(c, Evidence(studies, MINUTES), 0.95) for c in document_a.CLAIMS]
    text = as_markdown(rows, 0.95)
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(table) == len(document_a.CLAIMS) + 1
    assert all(line.count("|") == 7 for line in table)
    assert sum(line.startswith("- `") for line in text.splitlines()) == len(document_a.CLAIMS)
    assert "69,325" in text


def test_the_page_says_what_the_markdown_says(studies):
    rows = [judge(c, Evidence(studies, MINUTES), 0.95) for c in document_a.CLAIMS]
    page, text = as_html(rows, 0.95), as_markdown(rows, 0.95)
    cells = [unescape(re.sub("<.+?>", "", cell)) for cell in re.findall("<td>(.*?)</td>", page)]
    table = [line[2:-2] for line in text.splitlines() if line.startswith("| ")][1:]
    assert cells == [cell for line in table for cell in line.replace("**", "").split(" | ")]
    rules = [unescape(re.sub("<.+?>", "", rule)) for rule in re.findall("<li>(.*?)</li>", page)]
    listed = [line[2:] for line in text.splitlines() if line.startswith("- ")]
    assert rules == [line.replace("`", "") for line in listed]


def test_the_page_takes_nothing_for_html_and_loads_nothing():
    row = judge(claim({1: 0.9, 2: 0.1}, statement="a <b> & c", reason="d < e"), None, 0.95)
    page = as_html([row], 0.95)
    assert "<td>a &lt;b&gt; &amp; c; fraction</td>" in page
    assert "Why: d &lt; e." in page
    assert '<strong data-verdict="holds on 1 of 2 seeds">holds on 1 of 2 seeds</strong>' in page
    assert not re.search("src|href|url|@import|script", page)


def b_run(arm, seed, reward, accuracy, **more):
    """A run of 300 iterations whose reward and accuracy are these functions of the iteration."""
    iteration = range(301)
    frame = pd.DataFrame({"iteration": iteration, **more})
    frame["reward_mean"] = [nan, *(reward(i) for i in iteration[1:])]
    frame["accuracy"] = [accuracy(i) if i % 20 == 0 else nan for i in iteration]
    frame["success_probability"] = frame.accuracy
    frame[["recipe", "teacher", "beta", "seed"]] = [*arm, seed]
    return frame


def test_correlation_noise_and_pairs_by_hand():
    frame = b_run(WEAK, 1, lambda i: i / 300, lambda i: 0.5 + i / 900).set_index("iteration")
    together = measurements.correlation("reward_mean", "accuracy", 20, 5, 300)
    assert together(frame) == pytest.approx(1)
    assert together(frame.assign(accuracy=-frame.accuracy)) == pytest.approx(-1)
    assert isnan(measurements.correlation("reward_mean", "accuracy", 20, 5, 400)(frame))
    # Iterations that are no fifth ones are evaluated too, and do not weigh more for it.
    early = frame.accuracy.where(frame.index % 5 == 0, other=0.9)
    assert together(frame.assign(accuracy=early)) == pytest.approx(1)
    steps = run(iteration=[0, 1, 2, 3], reward_mean=[nan, 0.0, 1.0, 0.0])
    assert measurements.noise("reward_mean", 3)(steps) == pytest.approx(2**0.5)  # of +1 and -1
    ones, others = {1: 3.0, 2: 5.0}, {2: 4.0, 3: 1.0}
    pair = measurements.paired(lambda _: ones, lambda _: others, sub)
    assert pair(None) == {2: 1.0}


def test_the_disagreement_is_judged_by_learning_rate():
    """If only the highest learning rate collapses without an anchor, both documents are right."""
    frames = [
        b_run(arm, seed, lambda i: 0.5, lambda i, fall=fall: 0.5 - fall * i / 300)
        for rate in ("1e-4", "3e-4", "1e-3")
        for arm, fall in ((FREE[rate], 0.45 * (rate == "1e-3")), (ANCHORED[rate], 0.0))
        for seed in (1, 2)
    ]
    studies = Studies(pd.concat(frames, ignore_index=True), [])
    rows = {
        claim.key: judge(claim, Evidence(studies), 0.95)
        for claim in document_b.CLAIMS
        if "_lr" in claim.key
    }
    verdicts = {key: row["verdict"] for key, row in rows.items()}
    assert verdicts == {
        "free_destabilises_lr1e-4": "fails",
        "free_destabilises_lr3e-4": "fails",
        "free_destabilises_lr1e-3": "holds",
        **{f"anchor_holds_lr{rate}": "holds" for rate in ("1e-4", "3e-4", "1e-3")},
        **{f"anchor_matters_lr{rate}": "holds" for rate in ("1e-4", "3e-4", "1e-3")},
    }
    assert rows["anchor_matters_lr1e-3"]["ours"] == pytest.approx([0.45, 0.45])


def test_pierced_is_where_the_reward_is_up_and_the_accuracy_down():
    columns = {"iteration": [0, 1, 2, 3, 4], "accuracy": [0.3, 0.5, 0.2, nan, 0.1]}
    rewards = [nan, 2.0, 1.5, 3.0, 2.5]
    assert measurements.first_pierced(4)(run(**columns, reward_mean=rewards)) == 4  # not at 2
    rewards[2] = 2.1
    assert measurements.first_pierced(4)(run(**columns, reward_mean=rewards)) == 2
    held = run(**columns | {"accuracy": [0.3, 0.5, 0.3, nan, 0.4]}, reward_mean=rewards)
    assert measurements.first_pierced(4)(held) == inf


def learned_run(arm, seed, end, **columns):
    """A run of 300 iterations from 0.3 straight to an accuracy, its score rising."""
    frame = b_run(arm, seed, float, lambda i: 0.3 + (end - 0.3) * i / 300)
    kl = {"kl": 40.0, "kl_floor": 2.5, "accuracy_carry": 0.05}
    return frame.assign(**kl | columns)


def test_the_contrasts_are_judged_by_their_rules():
    """An inverted U over the anchor, for 800 pairs alone; for 200 the largest is the best."""
    ends = {
        200: {0: 0.0, 0.1: 0.1, 0.3: 0.2, 1: 0.25, 3: 0.4},
        800: {0: 0.0, 0.1: 0.2, 0.3: 0.8, 1: 0.9, 3: 0.4},
        4000: {0: 0.5, 0.1: 0.5, 0.3: 0.5, 1: 0.5, 3: 0.5},
    }
    frames = [
        learned_run(LEARNED[pairs]._replace(beta=float(beta)), seed, end)
        for pairs, by_beta in ends.items()
        for beta, end in by_beta.items()
        for seed in (1, 2)
    ]
    frames += [learned_run(BIASED, seed, 0.0, accuracy_carry=0.05 * seed) for seed in (1, 2)]
    evidence = Evidence(Studies(pd.concat(frames, ignore_index=True), []))
    rows = {claim.key: judge(claim, evidence, 0.95) for claim in contrasts.CLAIMS}
    assert {key: row["verdict"] for key, row in rows.items() if row["seeds"]} == {
        "pierced_200": "holds",
        "pierced_800": "holds",
        "pierced_4000": "fails",
        "anchor_prevents_200": "holds",
        "anchor_prevents_800": "holds",
        "anchor_prevents_4000": "holds",
        "anchor_between_200": "fails",
        "anchor_between_800": "holds",
        "anchor_between_4000": "fails",
        "biased_carry": "holds on 1 of 2 seeds",
        "learned_leaves_frontier": "holds",
    }
    assert rows["pierced_800"]["ours"] == [20, 20]
    assert rows["anchor_prevents_200"]["ours"] == pytest.approx([0.1, 0.1])
    assert rows["anchor_between_200"]["ours"] == pytest.approx([-0.15, -0.15])
    assert rows["anchor_between_800"]["ours"] == pytest.approx([0.5, 0.5])
    assert rows["learned_leaves_frontier"]["ours"] == [37.5, 37.5]


def test_dpo_is_judged_by_its_end():
    frame = pd.DataFrame({"iteration": range(2001)})
    seen = frame.iteration % 50 == 0
    frame["kl"] = (frame.iteration / 400).where(seen)  # half a nat more every 200 steps
    frame["accuracy"] = (0.9 - frame.iteration / 4000).where(seen)
    arm = DPO["1e-4", 0.5]
    frame[["recipe", "teacher", "beta", "seed"]] = [*arm, 1]
    evidence = Evidence(Studies(frame, []))
    rows = {claim.key: judge(claim, evidence, 0.95) for claim in contrasts.CLAIMS}
    grows, falls = rows["dpo_kl_grows_lr1e-4_beta05"], rows["dpo_falls_lr1e-4_beta05"]
    assert (grows["ours"], grows["verdict"]) == ([pytest.approx(0.5)], "holds")
    assert (falls["ours"], falls["verdict"]) == ([pytest.approx(0.5)], "holds")
    assert rows["dpo_falls_lr1e-4_beta01"]["verdict"] == "not measured"


def test_an_arm_that_no_table_holds_is_a_clear_error(studies):
    with pytest.raises(
        UserError, match=r"hold no run of recipe base.*They hold .*weak.*Name a study"
    ):
        studies.rows(Arm("base", "weak", 0.5))
