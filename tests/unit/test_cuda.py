"""The same code on a CUDA device. Skipped where there is none; `make gpu` needs one."""

import copy

import plain
import pytest
import torch
from helpers import SMALL, grpo_settings

from rlvr.addition import draw_prompts, encode_answer, encode_prompt
from rlvr.evaluation import evaluate
from rlvr.grpo import train as grpo_train
from rlvr.policy import initial_policy
from rlvr.settings import (
    EvaluationSettings,
    GrpoJob,
    SftJob,
    SftSettings,
    TeacherSettings,
)
from rlvr.sft import train as sft_train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def gradient(policy, loss):
    gradients = torch.autograd.grad(loss, list(policy.parameters()))
    return torch.cat([g.flatten() for g in gradients]).cpu()


def test_log_probs_gradients_and_evaluation_are_those_of_the_cpu():
    on_cpu = initial_policy(SMALL, seed=1).double()
    on_cuda = copy.deepcopy(on_cpu).to("cuda")
    prompts = encode_prompt(*draw_prompts(64, torch.Generator().manual_seed(0)))
    answers = encode_answer(torch.arange(64))
    fast, truth = on_cuda.log_probs(prompts, answers), plain.log_probs(on_cpu, prompts, answers)
    torch.testing.assert_close(fast.cpu(), truth, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        gradient(on_cuda, fast.mean()), gradient(on_cpu, truth.mean()), rtol=1e-9, atol=1e-12
    )
    assert evaluate(on_cuda) == pytest.approx(evaluate(on_cpu), rel=1e-9)


def test_training_twice_gives_the_same_bits():
    def run():
        start, _ = sft_train(
            SftJob(
                device="cuda",
                policy=SMALL,
                teacher=TeacherSettings(truth_probability=0.3),
                sft=SftSettings(learning_rate=3e-3, steps=50, batch_size=64),
            ),
            seed=1,
        )
        grpo = grpo_settings(iterations=5)
        evaluation = EvaluationSettings(every=5)
        job = GrpoJob(device="cuda", policy=SMALL, grpo=grpo, evaluation=evaluation)
        policy, rows = grpo_train(job, start, beta=0.1, seed=1)
        assert policy.head.weight.is_cuda
        return policy, rows

    (one, rows), (two, again) = run(), run()
    assert rows == again
    for x, y in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(x, y)
