"""The plain Transformer in PyTorch against an independent formula."""

import math

import numpy as np
import plain
import pytest
import torch
from helpers import FULL_SIZE, small_policy

from rlvr.errors import UserError
from rlvr.policy.engines.torch.device import prepare_torch
from rlvr.task.addition import Additions, all_additions, digits


def test_later_tokens_change_no_earlier_logit(small_policy):
    module, tokens = plain.module_of(small_policy), torch.from_numpy(some_tokens(20))
    logits = module(tokens)
    for position in range(1, 9):
        changed = tokens.clone()
        changed[:, position] = (changed[:, position] + 1) % 13
        after = module(changed)
        assert torch.equal(after[:, :position], logits[:, :position])
        assert (after[:, position:] != logits[:, position:]).any()


def some_tokens(n):
    return np.random.default_rng(1).integers(13, size=(n, 9))


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def numpy_logits(module, tokens: np.ndarray, heads: int) -> np.ndarray:
    """The architecture of the spec, written out for one sequence with loops over positions."""
    w = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    length = len(tokens)
    x = w["tokens.weight"][tokens] + w["positions.weight"][:length]
    for i in range(len(module.layers)):
        p = f"layers.{i}."
        h = layer_norm(x, w[p + "norm1.weight"], w[p + "norm1.bias"])
        qkv = h @ w[p + "self_attn.in_proj_weight"].T + w[p + "self_attn.in_proj_bias"]
        q, k, v = np.split(qkv, 3, axis=-1)
        size = q.shape[-1] // heads
        mixed = np.zeros_like(q)
        for head in range(heads):
            s = slice(head * size, (head + 1) * size)
            for t in range(length):
                weights = softmax(q[t, s] @ k[: t + 1, s].T / math.sqrt(size))
                mixed[t, s] = weights @ v[: t + 1, s]
        x = x + mixed @ w[p + "self_attn.out_proj.weight"].T + w[p + "self_attn.out_proj.bias"]
        h = layer_norm(x, w[p + "norm2.weight"], w[p + "norm2.bias"])
        h = np.maximum(h @ w[p + "linear1.weight"].T + w[p + "linear1.bias"], 0)
        x = x + h @ w[p + "linear2.weight"].T + w[p + "linear2.bias"]
    return x @ w["head.weight"].T + w["head.bias"]


def test_forward_is_the_architecture_of_the_spec():
    policy = small_policy(seed=3, settings=FULL_SIZE)
    policy.values += 0.1 * np.sin(np.arange(len(policy.values)))  # biases are not 0 then
    module, tokens = plain.module_of(policy), some_tokens(3)
    logits = module(torch.from_numpy(tokens)).detach().numpy()
    for row, sequence in zip(logits, tokens, strict=True):
        np.testing.assert_allclose(
            row, numpy_logits(module, sequence, FULL_SIZE.heads), rtol=1e-11, atol=1e-12
        )


def test_log_probs_sum_to_one_over_all_answers(small_policy):
    prompts = Additions(np.array([12]), np.array([34])).prompts().repeat(13**3, axis=0)
    answers = np.stack(np.meshgrid(*[np.arange(13)] * 3), axis=-1).reshape(-1, 3)
    total = np.exp(small_policy.log_probs(prompts, answers).sum(axis=1)).sum()
    assert total == pytest.approx(1, abs=1e-12)


def test_answer_tokens_are_predicted_from_the_prompt_on(small_policy):
    a, b = (operand[::200] for operand in all_additions())
    prompts, answers = Additions(a, b).prompts(), digits(a + b)
    sequences = torch.from_numpy(np.concatenate([prompts, answers[:, :2]], axis=1))
    whole = plain.module_of(small_policy)(sequences).log_softmax(-1).detach().numpy()
    expected = np.stack([whole[np.arange(50), 6 + i, answers[:, i]] for i in range(3)], axis=1)
    np.testing.assert_allclose(small_policy.log_probs(prompts, answers), expected, rtol=1e-11)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_where_there_is_none_is_a_clear_error():
    with pytest.raises(UserError, match="finds no CUDA device"):
        prepare_torch("cuda")
    assert prepare_torch("auto") == torch.device("cpu")
