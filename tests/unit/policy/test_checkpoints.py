"""Checkpoints: what is written is read back, and what is damaged is refused."""

import json
import math

import numpy as np
import pytest
import torch
from helpers import SMALL
from safetensors.torch import load_file, save_file

from rlvr.errors import UserError
from rlvr.policy.checkpoints import read_checkpoint, save_policy
from rlvr.policy.engines.compiled import CompiledPolicy
from rlvr.policy.parameters import initial_values

MADE_BY = {"run": {"seed": 1}, "settings": {"x": 2}}


def small():
    return CompiledPolicy(SMALL, initial_values(SMALL, seed=1))


def test_checkpoint_round_trip_is_exact_and_byte_stable(tmp_path):
    policy = small()
    for name in ("a", "b"):
        save_policy(policy, tmp_path / name, MADE_BY)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    settings, values, made_by, heads = read_checkpoint(tmp_path / "a")
    assert made_by == MADE_BY | {"architecture": SMALL.model_dump()}
    assert settings == SMALL
    assert heads == {}
    assert np.array_equal(values, policy.values)
    tensors = load_file(tmp_path / "a")  # as PyTorch reads it
    assert torch.equal(tensors["head.bias"], torch.from_numpy(values[-13:]))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_not_written(tmp_path, bad):
    policy = small()
    policy.values[-3] = bad
    with pytest.raises(UserError, match=r"p\.safetensors: was not written.* not finite"):
        save_policy(policy, tmp_path / "p.safetensors", MADE_BY)
    assert not list(tmp_path.iterdir())


def test_checkpoint_of_another_architecture_is_refused(tmp_path):
    made_by = MADE_BY | {"architecture": SMALL.model_dump() | {"feed_forward": 8}}
    save_policy(small(), tmp_path / "small", MADE_BY)
    metadata = {"provenance": json.dumps(made_by)}
    save_file(load_file(tmp_path / "small"), tmp_path / "p.safetensors", metadata)
    with pytest.raises(UserError, match=r"p\.safetensors: its weights are not of the architecture"):
        read_checkpoint(tmp_path / "p.safetensors")


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", b"\x80\x04}\x94."])
def test_damaged_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "p.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=r"p\.safetensors: not a readable safetensors file"):
        read_checkpoint(tmp_path / "p.safetensors")


def test_missing_and_foreign_checkpoints_are_refused(tmp_path):
    with pytest.raises(UserError, match="no such checkpoint"):
        read_checkpoint(tmp_path / "none.safetensors")
    save_file({"x": torch.zeros(2)}, tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="does not say what made it and which architecture"):
        read_checkpoint(tmp_path / "x.safetensors")
    save_policy(small(), tmp_path / "y.safetensors", {})
    with pytest.raises(UserError, match="does not say what made it"):
        read_checkpoint(tmp_path / "y.safetensors")


def test_any_damaged_byte_of_the_header_is_refused_or_harmless(tmp_path):
    """Never a stack trace, whatever byte of the file's description is damaged."""
    path = tmp_path / "p.safetensors"
    save_policy(small(), path, MADE_BY)
    whole = path.read_bytes()
    refused = 0
    for position in range(0, 700, 3):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x91]) + whole[position + 1 :])
        try:
            read_checkpoint(path)
        except UserError:
            refused += 1
    assert refused > 200
