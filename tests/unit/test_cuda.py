"""The engine of PyTorch on a CUDA device. Skipped where there is none; `make gpu` needs one."""

import numpy as np
import pytest
import torch
from helpers import EXACT, SMALL, grpo_settings, sft_settings, small_policy

from rlvr.config.methods.grpo import GrpoJob
from rlvr.config.methods.sft import SftJob
from rlvr.config.settings.teachers import SplitSettings, StoppingSettings, TeacherSettings
from rlvr.methods.grpo import train as grpo_train
from rlvr.methods.sft import train as sft_train
from rlvr.policy.engines.torch import TorchPolicy
from rlvr.policy.exam import averages, grade, prepare_exam
from rlvr.task.addition import digits, draw_additions
from rlvr.task.splits import split_prompts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

CUDA = {"engine": "torch", "device": "cuda"}


def report(policy, temperature):
    exam = prepare_exam(split_prompts(None).exam)
    return averages(grade(policy, exam, temperature), exam)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_gradients_and_evaluation_are_those_of_the_compiled_engine(temperature):
    compiled = small_policy(seed=1)
    on_cuda = TorchPolicy(SMALL, compiled.values, "cuda")
    prompts = draw_additions(64, np.random.default_rng(0)).prompts()
    answers = digits(np.arange(64))
    ours, theirs = (p.log_probs(prompts, answers, temperature) for p in (compiled, on_cuda))
    np.testing.assert_allclose(theirs, ours, rtol=1e-10, atol=1e-12)
    for policy in (compiled, on_cuda):
        policy.backward(np.ones_like(ours))
    np.testing.assert_allclose(on_cuda.gradient, compiled.gradient, rtol=1e-9, atol=1e-11)
    assert report(on_cuda, temperature) == pytest.approx(report(compiled, temperature), rel=1e-9)


PARTIAL = TeacherSettings(
    truth_probability=1.0,
    split=SplitSettings(validation=500, held_out=1000),
    stopping=StoppingSettings(validation_accuracy=0.0, every=50),
)


@pytest.mark.parametrize(
    ("teacher", "changes"),
    [
        (TeacherSettings(truth_probability=0.3), {}),
        (PARTIAL, {"kl_placement": "loss", "ratio": "token", "temperature": 0.7}),
    ],
)
def test_training_twice_gives_the_same_bits(teacher, changes):
    def run():
        job = SftJob(**CUDA, policy=SMALL, teacher=teacher, sft=sft_settings())
        start, _ = sft_train(job, seed=1)
        grpo = grpo_settings(iterations=5, evaluate_every=5, **changes)
        job = GrpoJob(**CUDA, grpo=grpo, reward={"kind": "exact"})
        split = split_prompts(teacher.split)
        policy, rows = grpo_train(job, start, split, EXACT, beta=0.1, seed=1)
        assert policy.module.head.weight.is_cuda
        return policy.values, rows

    (one, rows), (two, again) = run(), run()
    assert rows == again
    assert np.array_equal(one, two)
