"""The policy on PyTorch, as plainly as can be: for a GPU, and as the truth that tests compare with.

It computes every sequence as a whole, and has autograd find the gradient.
"""

from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from rlvr.config.settings.policy import PolicySettings
from rlvr.policy.engines.torch.device import prepare_torch
from rlvr.policy.engines.torch.transformer import Transformer
from rlvr.policy.policy import Grades, Rollout
from rlvr.task.addition import COMPLETION_LENGTH

PROMPTS_AT_ONCE = 2_500  # of an exam: some 100 MB


class TorchPolicy:
    """A `Policy` on PyTorch, on any device."""

    def __init__(
        self, settings: PolicySettings, values: np.ndarray, device: torch.device | str = "cpu"
    ) -> None:
        """A policy with a copy of these weights (parameters,)."""
        self.settings = settings
        self.module = Transformer(settings, values).to(device)
        self._device = device
        self._last: Tensor | None = None

    @property
    def values(self) -> np.ndarray:
        """The weights (parameters,); a copy."""
        return _flat([parameter.detach() for parameter in self.module.parameters()])

    @property
    def gradient(self) -> np.ndarray:
        """The gradient (parameters,); a copy."""
        return _flat([parameter.grad for parameter in self.module.parameters()])

    def copy(self) -> Self:
        """Another with the same weights."""
        return type(self)(self.settings, self.values, self._device)

    def adam(self, learning_rate: float, weight_decay: float = 0.0) -> "TorchAdam":
        """An optimiser of these weights; see `Policy`."""
        return TorchAdam(self.module, learning_rate, weight_decay)

    def log_probs(
        self, prompts: np.ndarray, completions: np.ndarray, temperature: float = 1.0
    ) -> np.ndarray:
        """Log-probabilities (n, 3); see `Policy`."""
        targets = self._tensor(completions)
        sequences = torch.cat([self._tensor(prompts), targets[:, :-1]], dim=1)
        logits = self.module(sequences)[:, prompts.shape[1] - 1 :]
        every = (logits / temperature).log_softmax(dim=-1)
        self._last = every.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return _array(self._last)

    def hidden_states(self, sequences: np.ndarray, first: int) -> np.ndarray:
        """The last layer's output (n, L - first, width); see `Policy`."""
        self._last = self.module.hidden_states(self._tensor(sequences))[:, first:]
        return _array(self._last)

    def backward(self, slopes: np.ndarray) -> None:
        """Find the gradient; see `Policy`."""
        for parameter in self.module.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self._last.backward(self._tensor(slopes).to(self._last.dtype))

    @torch.no_grad()
    def rollout(
        self, prompts: np.ndarray, uniforms: np.ndarray, temperature: float = 1.0
    ) -> Rollout:
        """One completion after each of `prompts` (n, 7); see `Policy`."""
        sequences, columns = self._tensor(prompts), []
        for uniform in self._tensor(uniforms):
            every = (self.module(sequences)[:, -1] / temperature).log_softmax(dim=-1)
            below = every.exp().cumsum(dim=-1) <= uniform.unsqueeze(-1).to(every.dtype)
            tokens = below[:, :-1].sum(dim=-1, keepdim=True)  # the last takes what rounding leaves
            entropy = -(every.exp() * every).sum(dim=-1, keepdim=True)
            columns.append((tokens, every.gather(-1, tokens), entropy))
            sequences = torch.cat([sequences, tokens], dim=1)
        return Rollout(*(_array(torch.cat(column, dim=1)) for column in zip(*columns, strict=True)))

    @torch.no_grad()
    def grade(self, prompts: np.ndarray, solutions: np.ndarray, temperature: float = 1.0) -> Grades:
        """How it does on `prompts` (n, 7); see `Policy`.

        Greedy decoding gives the solution if and only if its token has the highest logit at each of
        the three positions after what comes before it. So one pass replaces decoding.
        """
        correct, success_probability = [], []
        parts = (self._tensor(array).split(PROMPTS_AT_ONCE) for array in (prompts, solutions))
        for asked, solved in zip(*parts, strict=True):
            sequences = torch.cat([asked, solved[:, :-1]], dim=1)
            logits = self.module(sequences)[:, -COMPLETION_LENGTH:]
            correct.append((logits.argmax(dim=-1) == solved).all(dim=1))
            every = (logits / temperature).log_softmax(dim=-1)
            log_probs = every.gather(-1, solved.unsqueeze(-1)).squeeze(-1)
            success_probability.append(log_probs.double().sum(dim=1).exp())
        return Grades(_array(torch.cat(correct)), _array(torch.cat(success_probability)))

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


class TorchAdam:
    """AdamW on a `TorchPolicy`."""

    def __init__(self, module: nn.Module, learning_rate: float, weight_decay: float) -> None:
        """Of a module whose gradients it steps down."""
        self._parameters = list(module.parameters())
        self._adam = torch.optim.AdamW(
            self._parameters, lr=learning_rate, weight_decay=weight_decay
        )

    def step(self, max_gradient_norm: float = float("inf")) -> float:
        """A step; see `Optimizer`."""
        norm = nn.utils.clip_grad_norm_(self._parameters, max_gradient_norm)
        self._adam.step()
        return norm.item()


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _flat(tensors: list[Tensor]) -> np.ndarray:
    return _array(torch.cat([tensor.flatten() for tensor in tensors]))


def policy(settings: PolicySettings, values: np.ndarray, device: str) -> TorchPolicy:
    """The policy with these weights (parameters,), on what a `device` setting means here.

    Raises a `UserError` where that is CUDA and there is none.
    """
    return TorchPolicy(settings, values, prepare_torch(device))
