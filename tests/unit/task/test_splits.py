"""Splits of the prompts: which are trained on, which stop SFT, and which are reported on."""

import numpy as np
import plain
import pytest
import torch
from helpers import CPU, EXACT, FULL_SIZE, SMALL, grpo_job, sft_settings

from rlvr.config.methods.sft import SftJob
from rlvr.config.runs import Run, SftRun
from rlvr.config.settings.teachers import SplitSettings, StoppingSettings, TeacherSettings
from rlvr.config.values import PROMPTS
from rlvr.errors import UserError
from rlvr.methods import grpo, sft
from rlvr.policy.engines.compiled import CompiledPolicy
from rlvr.task.addition import additions, all_additions
from rlvr.task.rewards.exact import reward
from rlvr.task.splits import split_prompts

SPLIT = SplitSettings(validation=1000, held_out=600)


def sft_job(steps=40, stopping=None, split=SPLIT, policy=SMALL, **changes):
    return SftJob(
        **CPU,
        policy=policy,
        teacher=TeacherSettings(truth_probability=1.0, split=split, stopping=stopping),
        sft=sft_settings(**{"steps": steps, "batch_size": 256} | changes),
    )


# --- The split itself -----------------------------------------------------------------------------


@pytest.mark.parametrize(("validation", "held_out"), [(1000, 2000), (2, 2), (4000, 5998)])
def test_parts_have_the_sizes_asked_for_and_share_no_prompt(validation, held_out):
    split = split_prompts(SplitSettings(validation=validation, held_out=held_out))
    sizes = [PROMPTS - validation - held_out, validation, held_out]
    assert [len(part) for part in split] == sizes
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(PROMPTS))
    assert all((np.diff(part) > 0).all() for part in split)


@pytest.mark.parametrize(("validation", "held_out"), [(1000, 2000), (2, 2), (4000, 5998)])
def test_a_sum_and_its_mirror_are_in_the_same_part(validation, held_out):
    for part in split_prompts(SplitSettings(validation=validation, held_out=held_out)):
        a, b = additions(part)
        assert set((100 * b + a).tolist()) == set(part.tolist())


def test_parts_are_random_and_the_same_each_time():
    split = split_prompts(SPLIT)
    np.random.random(3)
    assert all(np.array_equal(x, y) for x, y in zip(split, split_prompts(SPLIT), strict=True))
    for part in split:
        share = additions(part).carry().mean().item()
        assert share == pytest.approx(0.6975, abs=4 * (0.6975 * 0.3025 / len(part)) ** 0.5)
        assert part.mean().item() == pytest.approx(
            PROMPTS / 2, abs=4 * PROMPTS / (12 * len(part)) ** 0.5
        )


def test_without_a_split_every_prompt_is_trained_on_and_reported_on():
    split = split_prompts(None)
    assert split.train is None
    assert len(split.validation) == 0
    assert np.array_equal(split.exam, np.arange(PROMPTS))


# --- What runs do with it -------------------------------------------------------------------------


@pytest.fixture
def trained_on(monkeypatch):
    """The prompts, as indices, that log-probabilities with a gradient were computed of."""
    seen = []
    log_probs, backward = CompiledPolicy.log_probs, CompiledPolicy.backward

    def recording(policy, prompts, answers, temperature=1.0):
        policy.last_prompts = prompts
        return log_probs(policy, prompts, answers, temperature)

    def recording_backward(policy, slopes):
        _, a_tens, a_units, _, b_tens, b_units, _ = policy.last_prompts.T
        seen.append(1000 * a_tens + 100 * a_units + 10 * b_tens + b_units)
        backward(policy, slopes)

    monkeypatch.setattr(CompiledPolicy, "log_probs", recording)
    monkeypatch.setattr(CompiledPolicy, "backward", recording_backward)
    return seen


def distinct(seen):
    return set(np.concatenate(seen).tolist())


def sums(prompts):
    """The sums, in whichever order their operands stand."""
    return {tuple(sorted(divmod(prompt, 100))) for prompt in prompts}


def plain_report(policy, prompts, temperature=1.0):
    """Accuracy and success probability on some prompts by decoding token by token."""
    module, asked = plain.module_of(policy), additions(prompts)
    tokens, carry = torch.from_numpy(asked.prompts()), asked.carry()
    right = reward(asked, plain.greedy(module, tokens).numpy())
    with torch.no_grad():
        log_probs = plain.log_probs(
            module, tokens, torch.from_numpy(asked.solutions()), temperature
        )
    success = log_probs.sum(dim=1).double().exp().numpy()
    return {
        "accuracy": right.mean().item(),
        "accuracy_carry": right[carry].mean().item(),
        "success_probability": success.mean().item(),
        "success_probability_carry": success[carry].mean().item(),
    }


def reported(row, expected):
    return {key: row[key] for key in expected}


def test_sft_trains_on_the_training_part_alone(trained_on):
    train_part = set(split_prompts(SPLIT).train.tolist())
    for seed in (1, 2):  # whatever the seed
        trained_on.clear()
        sft.train(sft_job(), seed)
        assert distinct(trained_on) <= train_part
        assert len(distinct(trained_on)) > 0.6 * len(train_part)
        for part in (split_prompts(SPLIT).validation, split_prompts(SPLIT).exam):
            assert not sums(distinct(trained_on)) & sums(part.tolist())


@pytest.mark.parametrize("changes", [{}, {"kl_placement": "loss"}])
def test_grpo_trains_on_the_training_part_alone(half_trained, trained_on, changes):
    # Of so small a part that a draw from anywhere else could not go unseen.
    split = split_prompts(SplitSettings(validation=1000, held_out=8900))
    job = grpo_job(iterations=6, prompts_per_iteration=32, evaluate_every=6, **changes)
    grpo.train(job, half_trained, split, EXACT, 0.04, 1)
    assert distinct(trained_on) <= set(split.train.tolist())
    assert not sums(distinct(trained_on)) & sums(split.exam.tolist())
    assert len(distinct(trained_on)) > 60


def test_sft_reports_the_held_out_part_alone():
    job = sft_job(steps=60, policy=FULL_SIZE)
    policy, rows = sft.train(job, 1)
    expected = plain_report(policy, split_prompts(SPLIT).exam)
    assert reported(rows[-1], expected) == pytest.approx(expected, rel=1e-5)
    prompts = torch.from_numpy(all_additions().prompts())
    everywhere = reward(all_additions(), plain.greedy(plain.module_of(policy), prompts).numpy())
    assert expected["accuracy"] > 0
    assert expected["accuracy"] != pytest.approx(everywhere.mean().item(), rel=1e-3)


def test_grpo_reports_the_held_out_part_alone(half_trained):
    start = CompiledPolicy(FULL_SIZE, half_trained.values.astype(np.float64))
    split, temperature = split_prompts(SPLIT), 0.7
    job = grpo_job(temperature=temperature, learning_rate=1e-3)
    policy, rows = grpo.train(job, start, split, EXACT, 0.0, 1)
    before, after = (plain_report(one, split.exam, temperature) for one in (start, policy))
    assert reported(rows[0], before) == pytest.approx(before, rel=1e-9)
    assert reported(rows[-1], after) == pytest.approx(after, rel=1e-9)
    assert before["accuracy"] != after["accuracy"]


def test_grpo_takes_the_split_of_the_sft_run_that_it_starts_from(tmp_path, trained_on):
    split = SplitSettings(validation=1000, held_out=8900)
    sft.SftStage(
        **dict(sft_job(steps=5, split=split)),
        run=SftRun(teacher="partial", seed=1),
        policy_out=tmp_path / "sft.safetensors",
        metrics_out=tmp_path / "sft.parquet",
    ).cli_cmd()
    # With the KL in the loss, so that each completion counts, however unlucky.
    grpo.GrpoStage(
        **dict(grpo_job(kl_placement="loss")),
        run=Run(method="grpo", recipe="base", teacher="partial", beta=0.04, seed=1),
        sft_policy=tmp_path / "sft.safetensors",
        policy_out=tmp_path / "grpo.safetensors",
        metrics_out=tmp_path / "grpo.parquet",
    ).cli_cmd()
    assert distinct(trained_on) <= set(split_prompts(split).train.tolist())


# --- The stopping rule ----------------------------------------------------------------------------

CHECKS = [60, 120, 180, 240]


@pytest.fixture(scope="module")
def validation_curve():
    """Accuracy on the validation prompts, by plain decoding, after so many steps of SFT."""
    accuracies, prompts = [], split_prompts(SPLIT).validation
    for steps in CHECKS:
        policy, _ = sft.train(sft_job(steps, learning_rate=1e-2), 1)
        accuracies.append(plain_report(policy, prompts)["accuracy"])
    return accuracies


def stopped(validation_accuracy, steps=300, every=60):
    rule = StoppingSettings(validation_accuracy=validation_accuracy, every=every)
    return sft.train(sft_job(steps, rule, learning_rate=1e-2), 1)


@pytest.mark.parametrize("check", range(len(CHECKS)))
def test_sft_stops_at_the_first_check_that_reaches_the_accuracy(validation_curve, check):
    threshold = validation_curve[check]
    first = next(i for i, accuracy in enumerate(validation_curve) if accuracy >= threshold)
    policy, rows = stopped(threshold)
    assert len(rows) == CHECKS[first]
    looked = {row["step"]: row["validation_accuracy"] for row in rows if row["step"] in CHECKS}
    assert list(looked.values()) == validation_curve[: first + 1]
    assert all(row["validation_accuracy"] is None for row in rows if row["step"] not in CHECKS)
    # It is the policy that as many steps without a rule would have made, reported as ever.
    same, _ = sft.train(sft_job(CHECKS[first], learning_rate=1e-2), 1)
    assert np.array_equal(policy.values, same.values)
    expected = plain_report(policy, split_prompts(SPLIT).exam)
    assert reported(rows[-1], expected) == pytest.approx(expected, rel=1e-5)


def test_the_curve_rises_so_that_thresholds_differ(validation_curve):
    assert validation_curve[-1] > validation_curve[0]


def test_the_last_step_is_a_check_too(validation_curve):
    best = validation_curve.index(max(validation_curve))
    assert len(stopped(validation_curve[best], steps=CHECKS[best])[1]) == CHECKS[best]


@pytest.mark.parametrize(
    ("accuracy", "steps", "every"),
    [
        (1.0, 120, 60),
        (0.0, 40, 50),  # it never looks
    ],
)
def test_an_accuracy_that_is_never_reached_is_an_error(accuracy, steps, every):
    with pytest.raises(UserError, match=r"validation accuracy.*Give SFT more steps"):
        stopped(accuracy, steps, every)
