"""The policy's parameters: one flat vector, in which each has its place, name and shape.

The names and the order are those of PyTorch's own encoder layers.
"""

import math

import numpy as np

from rlvr.config.settings.policy import PolicySettings
from rlvr.elementary import log
from rlvr.task.addition import OUTPUT_CLASSES, POSITIONS, VOCABULARY
from rlvr.task.streams import stream


def parameter_shapes(settings: PolicySettings) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter, in their order; weights are (out, in)."""
    width, hidden = settings.width, settings.feed_forward
    layer = {
        "self_attn.in_proj_weight": (3 * width, width),
        "self_attn.in_proj_bias": (3 * width,),
        "self_attn.out_proj.weight": (width, width),
        "self_attn.out_proj.bias": (width,),
        "linear1.weight": (hidden, width),
        "linear1.bias": (hidden,),
        "linear2.weight": (width, hidden),
        "linear2.bias": (width,),
        **{
            f"{norm}.{part}": (width,) for norm in ("norm1", "norm2") for part in ("weight", "bias")
        },
    }
    return {
        "tokens.weight": (VOCABULARY, width),
        "positions.weight": (POSITIONS, width),
        **{
            f"layers.{i}.{name}": shape
            for i in range(settings.layers)
            for name, shape in layer.items()
        },
        "head.weight": (OUTPUT_CLASSES, width),
        "head.bias": (OUTPUT_CLASSES,),
    }


def parameter_count(settings: PolicySettings) -> int:
    """How many numbers they are: 69,325 by default."""
    return sum(map(math.prod, parameter_shapes(settings).values()))


def named(values: np.ndarray, settings: PolicySettings) -> dict[str, np.ndarray]:
    """Views of the flat vector (parameters,), one per parameter.

    Raises a `ValueError` where it is not as long as they are.
    """
    if values.shape != (count := parameter_count(settings),):
        raise ValueError(f"a policy of {settings!r} has {count} weights, not {values.shape}")
    views, start = {}, 0
    for name, shape in parameter_shapes(settings).items():
        views[name] = values[start : start + math.prod(shape)].reshape(shape)
        start += math.prod(shape)
    return views


def initial_values(settings: PolicySettings, seed: int) -> np.ndarray:
    """The initial weights of the run seed (parameters,), float32, as PyTorch's layers draw theirs.

    Embeddings are standard normal; queries, keys and values are Xavier-uniform with no bias; the
    other maps are uniform within 1 / sqrt(inputs), and so are their biases but for attention's.
    """
    generator = stream(seed, "initial_weights")
    values = np.empty(parameter_count(settings), dtype=np.float32)
    weights = named(values, settings)
    for name, weight in weights.items():
        of = name.removesuffix(".bias").removesuffix(".weight")
        if of in ("tokens", "positions"):
            weight[:] = _normal(weight.size, generator).reshape(weight.shape)
        elif of.endswith(("norm1", "norm2")):
            weight[:] = name.endswith("weight")
        elif name.endswith(("in_proj_bias", "out_proj.bias")):
            weight[:] = 0
        else:
            xavier = name.endswith("in_proj_weight")
            bound = (
                math.sqrt(6 / sum(weight.shape))
                if xavier
                else 1 / math.sqrt(weights[f"{of}.weight"].shape[1])
            )
            weight[:] = bound * (2 * generator.random(weight.shape) - 1)
    return values


def _normal(count: int, generator: np.random.Generator) -> np.ndarray:
    """So many standard normal numbers, by Marsaglia's polar method (1964).

    NumPy's own call the C library's logarithm, which is not the same on every machine.
    """
    draws = np.empty(0)
    while len(draws) < count:
        x = 2 * generator.random((2, count)) - 1
        square = x[0] * x[0] + x[1] * x[1]
        inside = (square > 0) & (square < 1)
        x, square = x[:, inside], square[inside]
        draws = np.concatenate([draws, (x * np.sqrt(-2 * log(square) / square)).ravel()])
    return draws[:count]
