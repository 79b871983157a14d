"""The Transformer against an independent formula, and its checkpoints."""

import math

import numpy as np
import pytest
import torch
from helpers import FULL_SIZE, SMALL
from safetensors.torch import save_file

from rlvr.errors import UserError
from rlvr.policy.checkpoints import load_policy, save_policy
from rlvr.policy.device import prepare_torch
from rlvr.policy.transformer import Policy, initial_policy
from rlvr.task.addition import Additions, all_additions, digits

MADE_BY = {"run": {"seed": 1}, "settings": {"x": 2}}


def test_parameter_count_of_the_document():
    assert Policy(FULL_SIZE).parameter_count() == 69_325


def test_later_tokens_change_no_earlier_logit(small_policy):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(13, (20, 9), generator=generator)
    logits = small_policy(tokens)
    for position in range(1, 9):
        changed = tokens.clone()
        changed[:, position] = (changed[:, position] + 1) % 13
        after = small_policy(changed)
        assert torch.equal(after[:, :position], logits[:, :position])
        assert (after[:, position:] != logits[:, position:]).any()


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def numpy_logits(policy: Policy, tokens: np.ndarray, heads: int) -> np.ndarray:
    """The architecture of the spec, written out for one sequence with loops over positions."""
    w = {name: value.detach().numpy() for name, value in policy.state_dict().items()}
    length = len(tokens)
    x = w["tokens.weight"][tokens] + w["positions.weight"][:length]
    for i in range(len(policy.layers)):
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
    policy = initial_policy(FULL_SIZE, seed=3).double()
    tokens = torch.randint(13, (3, 9), generator=torch.Generator().manual_seed(0))
    logits = policy(tokens).detach().numpy()
    for row, sequence in zip(logits, tokens.numpy(), strict=True):
        np.testing.assert_allclose(
            row, numpy_logits(policy, sequence, FULL_SIZE.heads), rtol=1e-11, atol=1e-12
        )


def test_log_probs_sum_to_one_over_all_answers(small_policy):
    prompts = Additions(torch.tensor([12]), torch.tensor([34])).prompts().expand(13**3, -1)
    answers = torch.cartesian_prod(*[torch.arange(13)] * 3)
    total = small_policy.log_probs(prompts, answers).sum(dim=1).exp().sum()
    assert total.item() == pytest.approx(1, abs=1e-12)


def test_answer_tokens_are_predicted_from_the_prompt_on(small_policy):
    a, b = (operand[::200] for operand in all_additions())
    prompts, answers = Additions(a, b).prompts(), digits(a + b)
    whole = small_policy(torch.cat([prompts, answers[:, :2]], dim=1)).log_softmax(-1)
    expected = torch.stack([whole[torch.arange(50), 6 + i, answers[:, i]] for i in range(3)], dim=1)
    torch.testing.assert_close(small_policy.log_probs(prompts, answers), expected)


def test_initial_weights_are_those_of_pytorch_s_encoder_layer():
    policy = initial_policy(FULL_SIZE, seed=5)
    first, second = policy.layers
    bound = math.sqrt(6 / (64 + 3 * 64))  # Xavier-uniform
    for layer in policy.layers:
        projection = layer.self_attn.in_proj_weight
        assert projection.abs().max() <= bound
        assert projection.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
        assert not layer.self_attn.in_proj_bias.any()
        assert not layer.self_attn.out_proj.bias.any()
    assert not torch.equal(first.linear1.weight, second.linear1.weight)
    assert policy.tokens.weight.std().item() == pytest.approx(1, rel=0.1)


def test_initial_weights_depend_on_the_seed_alone():
    torch.manual_seed(0)
    one = initial_policy(SMALL, seed=1)
    torch.rand(10)
    again, other = initial_policy(SMALL, seed=1), initial_policy(SMALL, seed=2)
    assert all(torch.equal(x, y) for x, y in zip(one.parameters(), again.parameters(), strict=True))
    assert not torch.equal(one.head.weight, other.head.weight)


def test_checkpoint_round_trip_is_exact_and_byte_stable(tmp_path):
    policy = initial_policy(SMALL, seed=1)
    for name in ("a", "b"):
        save_policy(policy, tmp_path / name, MADE_BY)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded, made_by = load_policy(tmp_path / "a")
    assert made_by == MADE_BY | {"architecture": SMALL.model_dump()}
    for x, y in zip(policy.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_not_written(tmp_path, bad):
    policy = initial_policy(SMALL, seed=1)
    policy.head.bias.data[3] = bad
    with pytest.raises(UserError, match=r"p\.safetensors: was not written.* not finite"):
        save_policy(policy, tmp_path / "p.safetensors", MADE_BY)
    assert not list(tmp_path.iterdir())


def test_checkpoint_of_another_architecture_is_refused(tmp_path):
    policy = initial_policy(SMALL, seed=1)
    policy.settings = FULL_SIZE
    save_policy(policy, tmp_path / "p.safetensors", MADE_BY)
    with pytest.raises(UserError, match=r"p\.safetensors: its weights are not of the architecture"):
        load_policy(tmp_path / "p.safetensors")


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", b"\x80\x04}\x94."])
def test_damaged_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "p.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=r"p\.safetensors: not a readable safetensors file"):
        load_policy(tmp_path / "p.safetensors")


def test_missing_and_foreign_checkpoints_are_refused(tmp_path):
    with pytest.raises(UserError, match="no such checkpoint"):
        load_policy(tmp_path / "none.safetensors")
    save_file({"x": torch.zeros(2)}, tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="does not say what made it and which architecture"):
        load_policy(tmp_path / "x.safetensors")
    save_policy(initial_policy(SMALL, seed=1), tmp_path / "y.safetensors", {})
    with pytest.raises(UserError, match="does not say what made it"):
        load_policy(tmp_path / "y.safetensors")


def test_any_damaged_byte_of_the_header_is_refused_or_harmless(tmp_path):
    """Never a stack trace, whatever byte of the file's description is damaged."""
    path = tmp_path / "p.safetensors"
    save_policy(initial_policy(SMALL, seed=1), path, MADE_BY)
    whole = path.read_bytes()
    refused = 0
    for position in range(0, 700, 3):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x91]) + whole[position + 1 :])
        try:
            load_policy(path)
        except UserError:
            refused += 1
    assert refused > 200


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_where_there_is_none_is_a_clear_error():
    with pytest.raises(UserError, match="finds no CUDA device"):
        prepare_torch("cuda")
    assert prepare_torch("auto") == torch.device("cpu")
