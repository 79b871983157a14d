"""The flat vector of parameters, and the initial weights in it."""

import hashlib
import math

import numpy as np
import plain
import pytest
import torch
from helpers import FULL_SIZE, SMALL, small_policy
from scipy import stats

from rlvr.policy.parameters import initial_values, named, parameter_count, parameter_shapes


def test_parameter_count_of_the_document():
    assert parameter_count(FULL_SIZE) == 69_325


@pytest.mark.parametrize("settings", [FULL_SIZE, SMALL.model_copy(update={"layers": 3})])
def test_names_order_and_shapes_are_those_of_pytorch(settings):
    module = plain.module_of(small_policy(settings=settings))
    theirs = {name: tuple(weight.shape) for name, weight in module.named_parameters()}
    assert list(parameter_shapes(settings).items()) == list(theirs.items())


def test_names_are_views_of_the_vector():
    values = np.arange(parameter_count(SMALL))
    views = named(values, SMALL)
    assert np.array_equal(np.concatenate([view.ravel() for view in views.values()]), values)
    views["head.bias"][:] = -1
    assert (values[-13:] == -1).all()


def test_initial_weights_are_distributed_like_those_of_pytorch_s_encoder_layer():
    """Each parameter as PyTorch draws its own: constants are equal, others pass for one sample."""
    values = initial_values(FULL_SIZE, seed=5)
    assert values.dtype == np.float32
    ours = named(values, FULL_SIZE)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128)
    theirs = {f"layers.1.{name}": weight for name, weight in layer.named_parameters()}
    theirs |= {"tokens.weight": torch.nn.Embedding(14, 64).weight}
    theirs |= {"positions.weight": torch.nn.Embedding(10, 64).weight}
    head = torch.nn.Linear(64, 13)
    theirs |= {"head.weight": head.weight, "head.bias": head.bias}
    for name, weight in theirs.items():
        sample, other = ours[name].ravel(), weight.detach().numpy().ravel()
        if other.std() == 0:
            assert (sample == other[0]).all(), name
            continue
        # Theirs is drawn anew each time: a probability that no run of the tests will ever see.
        assert stats.ks_2samp(sample, other).pvalue > 1e-6, name
        if not name.startswith(("tokens", "positions")):
            fan = sum(weight.shape) / 6 if "in_proj" in name else theirs_inputs(name)
            assert np.abs(sample).max() <= 1 / math.sqrt(fan), name
    assert not np.array_equal(ours["layers.0.linear1.weight"], ours["layers.1.linear1.weight"])


def theirs_inputs(name):
    return 128 if "linear2" in name else 64


def test_initial_weights_depend_on_the_seed_alone():
    one, again, other = (initial_values(SMALL, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_initial_weights_are_the_same_bytes_everywhere():
    values = initial_values(FULL_SIZE, seed=42)
    assert hashlib.sha256(values.tobytes()).hexdigest()[:16] == "84ad88255cf70ca4"
