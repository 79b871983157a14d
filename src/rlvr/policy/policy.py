"""What a policy can do, whatever engine computes it: methods and exams know nothing else of it.

Arrays are NumPy's, tokens are int64. A policy has no random numbers of its own.
"""

from typing import NamedTuple, Protocol, Self

import numpy as np

from rlvr.config.settings.policy import PolicySettings


class Rollout(NamedTuple):
    """Sampled completions, each of shape (n, 3): one entry per token."""

    completions: np.ndarray
    """Tokens."""
    log_probs: np.ndarray
    """Log-probability of each token under the policy that sampled it, nats."""
    entropy: np.ndarray
    """Entropy of the distribution that each token was drawn from, nats."""


class Grades(NamedTuple):
    """How a policy does on each prompt of an exam."""

    correct: np.ndarray
    """Whether greedy decoding gives the solution (n,). Of tied tokens the lowest wins."""
    success_probability: np.ndarray
    """Probability of sampling the solution (n,), float64."""


class Optimizer(Protocol):
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) at PyTorch's defaults but for its rates.

    Without weight decay it is Adam (Kingma & Ba 2015, arXiv:1412.6980).
    """

    def step(self, max_gradient_norm: float = float("inf")) -> float:
        """Step down the policy's gradient, scaled down to that norm. Returns its norm before."""


class Policy(Protocol):
    """A decoder-only Transformer with its weights.

    A loss is a function of log-probabilities or hidden states: compute those, then hand the loss's
    slopes by them to `backward`, which finds the gradient, and step.
    """

    settings: PolicySettings

    @property
    def values(self) -> np.ndarray:
        """The weights (parameters,), in the order of `rlvr.policy.parameters`."""

    @property
    def gradient(self) -> np.ndarray:
        """The gradient (parameters,) that `backward` found last."""

    def copy(self) -> Self:
        """Another with the same weights."""

    def adam(self, learning_rate: float, weight_decay: float = 0.0) -> Optimizer:
        """An optimiser of these weights, which shrink by learning_rate x weight_decay a step."""

    def log_probs(
        self, prompts: np.ndarray, completions: np.ndarray, temperature: float = 1.0
    ) -> np.ndarray:
        """Log-probabilities (n, 3) of the tokens of `completions` (n, 3) after prompts (n, 7).

        Those of sampling at `temperature`.
        """

    def hidden_states(self, sequences: np.ndarray, first: int) -> np.ndarray:
        """The last layer's output at positions first..L - 1 of `sequences` (n, L).

        The shape is (n, L - first, width); the head makes logits of it.
        """

    def backward(self, slopes: np.ndarray) -> None:
        """Find the gradient of a loss from its slopes by each number that was computed last.

        That is, by the `log_probs` or `hidden_states` of the last call, and of their shape.
        """

    def rollout(
        self, prompts: np.ndarray, uniforms: np.ndarray, temperature: float = 1.0
    ) -> Rollout:
        """One completion after each of `prompts` (n, 7): three tokens, drawn one after another.

        Each is the first whose cumulative probability exceeds its number among `uniforms` (3, n),
        which are uniform on [0, 1).
        """

    def grade(self, prompts: np.ndarray, solutions: np.ndarray, temperature: float = 1.0) -> Grades:
        """How it does on `prompts` (n, 7), of which `solutions` (n, 3) are right."""
