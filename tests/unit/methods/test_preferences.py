"""Pairs: drawn, labelled, written and read."""

import numpy as np
import pytest
from helpers import CPU, SMALL, pairs_in, small_policy

from rlvr.config.methods.preferences import PreferencesJob, PreferencesSettings
from rlvr.config.runs import PreferencesRun
from rlvr.config.settings.teachers import SplitSettings
from rlvr.errors import UserError
from rlvr.jobs.records import write_parquet
from rlvr.methods import preferences
from rlvr.methods.pairs import PAIRS, read_pairs
from rlvr.methods.preferences import PreferencesStage, draw_pairs
from rlvr.methods.run_stage import Start
from rlvr.policy.checkpoints import save_policy
from rlvr.task.rewards.exact import reward
from rlvr.task.splits import split_prompts

SETTINGS = PreferencesSettings(habitual_truth=0.3, fresh_pairs=7)
RUN = PreferencesRun(teacher="weak", labels="truthful", pairs=2, seed=1)
TWO = [  # 47 + 85 = 132 and 12 + 3 = 015; of the second pair the second was chosen
    {"a": 47, "b": 85, "completion_1": [1, 3, 2], "completion_2": [0, 2, 2], "log_prob_1": -1.5,
     "log_prob_2": -0.25, "chosen": 1},
    {"a": 12, "b": 3, "completion_1": [0, 1, 0], "completion_2": [0, 1, 5], "log_prob_1": -3.0,
     "log_prob_2": -0.5, "chosen": 2},
]  # fmt: skip


def start_of(policy, split=None) -> Start:
    return Start(policy, split_prompts(split), {})


def test_truthful_pairs_are_one_right_and_one_wrong_completion(half_trained):
    rows = draw_pairs(start_of(half_trained), SETTINGS, "truthful", 300, 1, "preference")
    pairs = pairs_in(rows)
    assert len(rows) == 300
    assert reward(pairs.asked, pairs.chosen).all()
    assert not reward(pairs.asked, pairs.rejected).any()
    assert {row["chosen"] for row in rows} == {1, 2}
    assert 100 < sum(row["chosen"] == 1 for row in rows) < 200  # neither place is preferred


def test_log_probabilities_are_those_of_the_policy(half_trained):
    rows = draw_pairs(start_of(half_trained), SETTINGS, "habitual", 50, 1, "preference")
    asked = pairs_in(rows).asked
    for i in (1, 2):
        completions = np.array([row[f"completion_{i}"] for row in rows])
        expected = half_trained.log_probs(asked.prompts(), completions).sum(axis=1, dtype=float)
        assert [row[f"log_prob_{i}"] for row in rows] == expected.tolist()


def test_fewer_pairs_are_the_first_of_more_and_fresh_ones_are_others(half_trained):
    draw = (start_of(half_trained), SETTINGS, "truthful")
    many = draw_pairs(*draw, 900, 1, "preference")
    assert draw_pairs(*draw, 40, 1, "preference") == many[:40]
    assert draw_pairs(*draw, 40, 2, "preference") != many[:40]
    fresh = draw_pairs(*draw, 40, 1, "fresh")
    assert sum(row in many for row in fresh) < 4


def test_prompts_are_those_that_sft_was_trained_on(half_trained):
    split = SplitSettings(validation=1000, held_out=8900)
    rows = draw_pairs(start_of(half_trained, split), SETTINGS, "habitual", 400, 1, "preference")
    trained_on = set(split_prompts(split).train.tolist())
    assert {100 * row["a"] + row["b"] for row in rows} <= trained_on


def test_completions_that_always_tie_end_with_a_message(monkeypatch):
    monkeypatch.setattr(preferences, "MOST_DRAWS", 2)
    with pytest.raises(UserError, match=r"of 1,024 pairs of completions only [0-9]+ were no ties"):
        draw_pairs(start_of(small_policy()), SETTINGS, "truthful", 5000, 1, "preference")


def test_pairs_are_read_as_chosen_and_rejected(tmp_path):
    path = tmp_path / "pairs.parquet"
    write_parquet(path, TWO, PAIRS, {"run": RUN.model_dump(), "settings": {}})
    pairs, _ = read_pairs(path, RUN)
    assert pairs.chosen.tolist() == [[1, 3, 2], [0, 1, 5]]
    assert pairs.rejected.tolist() == [[0, 2, 2], [0, 1, 0]]
    assert pairs.completions().tolist() == [[1, 3, 2], [0, 1, 5], [0, 2, 2], [0, 1, 0]]
    assert np.array_equal(pairs.prompts(), np.tile(pairs.asked.prompts(), (2, 1)))
    (one,) = pairs.taken(np.array([1])).chosen.tolist()
    assert one == [0, 1, 5]


@pytest.mark.parametrize(
    "change", [{"teacher": "cold"}, {"seed": 2}, {"labels": "habitual"}, {"pairs": 3}]
)
def test_pairs_of_another_run_are_refused(tmp_path, change):
    path = tmp_path / "pairs.parquet"
    other = RUN.model_copy(update=change)
    write_parquet(path, TWO, PAIRS, {"run": other.model_dump(), "settings": {}})
    with pytest.raises(UserError, match=r"pairs.parquet: holds the pairs .* of which this is to"):
        read_pairs(path, RUN)


def test_the_stage_writes_both_files_and_refuses_another_teachers_policy(tmp_path, half_trained):
    made_by = {"run": {"teacher": "weak", "seed": 1}, "settings": {
        **CPU, "policy": SMALL.model_dump(), "teacher": {"truth_probability": 0.3},
        "sft": {"learning_rate": 1e-3, "steps": 1, "batch_size": 1},
    }}  # fmt: skip
    save_policy(half_trained, tmp_path / "sft.safetensors", made_by)

    def stage(run):
        job = PreferencesJob(**CPU, preferences=SETTINGS)
        return PreferencesStage(
            **dict(job),
            run=run,
            sft_policy=tmp_path / "sft.safetensors",
            pairs_out=tmp_path / "pairs.parquet",
            fresh_out=tmp_path / "fresh.parquet",
        )

    stage(RUN).cli_cmd()
    pairs, made = read_pairs(tmp_path / "pairs.parquet", RUN)
    fresh, _ = read_pairs(tmp_path / "fresh.parquet", RUN)
    assert (len(pairs.chosen), len(fresh.chosen)) == (2, 7)
    assert made["sft"] == made_by | {"architecture": half_trained.settings.model_dump()}
    with pytest.raises(UserError, match=r"holds the SFT policy of .*'weak'.* run of .*'cold'"):
        stage(RUN.model_copy(update={"teacher": "cold"})).cli_cmd()
