"""The same code on a CUDA device. Skipped where there is none; `make gpu` needs one."""

import copy

import plain
import pytest
import torch
from helpers import SMALL, grpo_settings, sft_settings

from rlvr.config.methods.grpo import GrpoJob
from rlvr.config.methods.sft import SftJob
from rlvr.config.settings.teachers import SplitSettings, StoppingSettings, TeacherSettings
from rlvr.methods.grpo import train as grpo_train
from rlvr.methods.sft import train as sft_train
from rlvr.policy.exam import averages, grade, prepare_exam
from rlvr.policy.transformer import initial_policy
from rlvr.task.addition import digits, draw_additions
from rlvr.task.splits import split_prompts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def gradient(policy, loss):
    gradients = torch.autograd.grad(loss, list(policy.parameters()))
    return torch.cat([g.flatten() for g in gradients]).cpu()


def report(policy, temperature):
    exam = prepare_exam(split_prompts(None).exam, policy.head.weight)
    return averages(grade(policy, exam, temperature), exam)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_gradients_and_evaluation_are_those_of_the_cpu(temperature):
    on_cpu = initial_policy(SMALL, seed=1).double()
    on_cuda = copy.deepcopy(on_cpu).to("cuda")
    prompts = draw_additions(64, torch.Generator().manual_seed(0)).prompts()
    answers = digits(torch.arange(64))
    fast = on_cuda.log_probs(prompts, answers, temperature)
    truth = plain.log_probs(on_cpu, prompts, answers, temperature)
    torch.testing.assert_close(fast.cpu(), truth, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        gradient(on_cuda, fast.mean()), gradient(on_cpu, truth.mean()), rtol=1e-9, atol=1e-12
    )
    assert report(on_cuda, temperature) == pytest.approx(report(on_cpu, temperature), rel=1e-9)


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
        start, _ = sft_train(
            SftJob(
                device="cuda",
                policy=SMALL,
                teacher=teacher,
                sft=sft_settings(),
            ),
            seed=1,
        )
        grpo = grpo_settings(iterations=5, evaluate_every=5, **changes)
        job = GrpoJob(device="cuda", grpo=grpo)
        policy, rows = grpo_train(job, start, split_prompts(teacher.split), beta=0.1, seed=1)
        assert policy.head.weight.is_cuda
        return policy, rows

    (one, rows), (two, again) = run(), run()
    assert rows == again
    for x, y in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(x, y)
