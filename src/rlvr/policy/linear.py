"""A linear map that is as fast on AMD processors as on Intel's.

PyTorch's products in float32 on a CPU call MKL, which keeps to half the vector width of AMD's newer
processors. oneDNN, which PyTorch ships too, does not: twice as fast there, the same numbers.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

FEWEST_ROWS = 320  # below it, the call costs more than the product


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b, of shape (rows, out), as `torch.nn.functional.linear` has it."""
    one_dnn = x.device.type == "cpu" and x.dtype == torch.float32 and len(x) >= FEWEST_ROWS
    if not one_dnn or not torch.backends.mkldnn.is_available():
        return functional.linear(x, weight, bias)
    if not torch.is_grad_enabled():
        return _product(x, weight, bias)
    return _Linear.apply(x, weight, bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    """The map and its three gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        by_x = _product(gradient, weight.T, None)
        # oneDNN's first factor gets copied where it is transposed: better the narrow one.
        if gradient.shape[1] <= x.shape[1]:
            by_weight = _product(gradient.T, x.T, None)
        else:
            by_weight = _product(x.T, gradient.T, None).T
        return by_x, by_weight, gradient.sum(dim=0)
