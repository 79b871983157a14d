"""A Transformer with a scalar head: what reward models are, scores of sequences in place of tokens.

The Transformer is a policy of any engine, from whose hidden states the head makes scores.
"""

import numpy as np

from rlvr.policy.policy import Policy

SCORE_HEAD = "score.weight"
"""The name of the head in a checkpoint."""


class ScoreModel:
    """A policy's Transformer, and a head that makes a score of a hidden state."""

    def __init__(self, transformer: Policy, head: np.ndarray | None = None) -> None:
        """Of this policy and this head (width,): zeros if there is none yet."""
        width, dtype = transformer.settings.width, transformer.values.dtype
        self.transformer = transformer
        self.head = np.zeros(width, dtype=dtype) if head is None else head
        self.head_gradient = np.zeros_like(self.head)
        self._hidden = np.zeros((0, 0, width))

    def scores(self, sequences: np.ndarray, first: int) -> np.ndarray:
        """Scores (n, L - first), float64, at positions first..L - 1 of `sequences` (n, L)."""
        self._hidden = self.transformer.hidden_states(sequences, first).astype(np.float64)
        return (self._hidden * self.head).sum(axis=2)

    def score(self, prompts: np.ndarray, completions: np.ndarray) -> np.ndarray:
        """The score (n,) of each completion (n, 3), at its last token, after its prompt (n, 7)."""
        sequences = np.concatenate([prompts, completions], axis=1)
        return self.scores(sequences, sequences.shape[1] - 1)[:, 0]

    def backward(self, slopes: np.ndarray) -> None:
        """Find the gradients of a loss from its slopes by each score that was computed last."""
        slopes = slopes[:, :, np.newaxis]
        by_head = (slopes * self._hidden).reshape(-1, len(self.head)).sum(axis=0)
        self.head_gradient = by_head.astype(self.head.dtype)
        self.transformer.backward(slopes * self.head)

    def adam(self, learning_rate: float, weight_decay: float = 0.0) -> "ScoreAdam":
        """An optimiser of all its weights."""
        return ScoreAdam(self, learning_rate, weight_decay)


class ScoreAdam:
    """AdamW on a `ScoreModel`: the engine's on the Transformer, and the same here on the head."""

    def __init__(self, model: ScoreModel, learning_rate: float, weight_decay: float) -> None:
        """Of a model whose gradients it steps down."""
        self._model, self._learning_rate = model, learning_rate
        self._kept = 1 - learning_rate * weight_decay
        self._transformer = model.transformer.adam(learning_rate, weight_decay)
        self._means, self._squares = np.zeros_like(model.head), np.zeros_like(model.head)
        self._powers = [1.0, 1.0]  # of the two decays, by products, which all machines round alike

    def step(self) -> None:
        """A step; see `Optimizer`."""
        self._transformer.step()
        head, gradient = self._model.head, self._model.head_gradient
        self._powers = [
            power * decay for power, decay in zip(self._powers, (0.9, 0.999), strict=True)
        ]
        mean_share, square_share = (1 - power for power in self._powers)
        self._means += 0.1 * (gradient - self._means)
        self._squares += 0.001 * (gradient * gradient - self._squares)
        roots = np.sqrt(self._squares) / np.sqrt(square_share).item() + 1e-8
        head *= self._kept
        head -= self._learning_rate / mean_share * self._means / roots
