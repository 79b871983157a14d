"""The policy on the compiled engine: checks arrays, and hands them to engine.c."""

import ctypes
import functools
from ctypes import c_double, c_int64, c_void_p
from typing import Self

import numpy as np

from rlvr import elementary
from rlvr.config.settings.policy import LANES, PolicySettings
from rlvr.errors import UserError
from rlvr.policy.engines.compiled import build
from rlvr.policy.parameters import parameter_count
from rlvr.policy.policy import Grades, Rollout
from rlvr.task.addition import COMPLETION_LENGTH, OUTPUT_CLASSES, POSITIONS, VOCABULARY

SEQUENCES_AT_ONCE = 2_048  # of a rollout: what is computed of more is shared less, but kept small
PROMPTS_AT_ONCE = 128  # of an exam: few enough to stay in cache
MOST_NUMBERS = 2**31  # in an array of the engine, which counts them by 32 bits

P, N, D = c_void_p, c_int64, c_double
FUNCTIONS = {
    "runs_here": (N,),
    "parameters": (N,),
    "tree_bytes": (N, N),
    "work_bytes": (N, N),
    "prepare_tree": (None, P, N),
    "prepare_work": (None, P, N, P),
    "plant": (N, P, N, N, N, P),
    "forward": (N, P, P, N, P, D, P, P),
    "backward": (None, P, P, P, N, P, P, P),
    "rollout": (N, P, P, N, N, P, N, P, D, P, P, P),
    "grade": (N, P, P, N, N, N, P, N, P, D, P, P),
    "adam": (D, P, P, P, P, N, D, D),
}
"""What engine.c exports: the type of each result, then those of its arguments."""


class Library:
    """The functions of a compiled engine.c."""

    def __init__(self, path: str) -> None:
        """Load the shared library."""
        loaded = ctypes.CDLL(path)
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(loaded, f"engine_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


@functools.cache
def _library(settings: PolicySettings, dtype: np.dtype) -> Library:
    library = Library(str(build.library(settings, dtype)))
    if not library.runs_here():
        raise UserError(
            "the compiled engine needs a processor with AVX2 and FMA, of 2013 or later. "
            f"{build.ANOTHER}."
        )
    return library


def _at(array: np.ndarray) -> int:
    """Where an array lies in memory."""
    return array.__array_interface__["data"][0]


def _tokens(array: np.ndarray, columns: int | None) -> np.ndarray:
    """Tokens (n, columns), one row after another. Raises a `ValueError` for another array."""
    if array.ndim != 2 or array.dtype != np.int64 or columns not in (None, array.shape[1]):
        raise ValueError(
            f"tokens must be int64 of shape (n, {columns or 'length'}), not {array.dtype} of "
            f"{array.shape}"
        )
    return np.ascontiguousarray(array)


def _check(returned: int) -> int:
    """What a function of the engine returned. Raises a `ValueError` where it refused the tokens."""
    if returned < 0:
        raise ValueError(
            f"tokens to read must be from 0 to {VOCABULARY - 1}, tokens to predict from 0 to "
            f"{OUTPUT_CLASSES - 1}"
        )
    return returned


class _Block:
    """Memory for the engine to work in, on a cache line."""

    def __init__(self, size: int) -> None:
        self._memory = np.empty(size + 64, dtype=np.uint8)
        self.address = _at(self._memory) + -_at(self._memory) % 64


class CompiledPolicy:
    """A `Policy` on engine.c; of float32 weights or, for tests, of float64."""

    def __init__(
        self, settings: PolicySettings, values: np.ndarray, library: Library | None = None
    ) -> None:
        """A policy with these weights (parameters,), which stay the array that they are.

        Raises a `ValueError` where there are too many or too few.
        """
        self.settings, self.values = settings, values
        self.gradient = np.zeros_like(values)
        self._library = library or _library(settings, values.dtype)
        count = parameter_count(settings)
        if values.shape != (count,) or not values.flags.c_contiguous:
            raise ValueError(f"a policy of {settings!r} has {count} weights, not {values.shape}")
        if self._library.parameters() != count:
            raise ValueError(f"the library is one of {self._library.parameters()} weights")
        self._tree_nodes = self._work_nodes = 0
        self._planted = self._asked = 0
        self._targets: np.ndarray | None = None

    def copy(self) -> Self:
        """Another with the same weights."""
        return type(self)(self.settings, self.values.copy(), self._library)

    def adam(self, learning_rate: float, weight_decay: float = 0.0) -> "CompiledAdam":
        """An optimiser of these weights; see `Policy`."""
        return CompiledAdam(self, learning_rate, weight_decay, self._library)

    def log_probs(
        self, prompts: np.ndarray, completions: np.ndarray, temperature: float = 1.0
    ) -> np.ndarray:
        """Log-probabilities (n, 3); see `Policy`."""
        targets = _tokens(completions, COMPLETION_LENGTH)
        self._plant(np.concatenate([prompts, targets[:, :-1]], axis=1), prompts.shape[1] - 1)
        log_probs = np.empty(targets.shape, dtype=self.values.dtype)
        _check(self._library.forward(
            self._work.address, _at(self.values), len(targets), _at(targets), temperature,
            _at(log_probs), None,
        ))  # fmt: skip
        self._planted, self._targets = len(targets), targets
        return log_probs

    def hidden_states(self, sequences: np.ndarray, first: int) -> np.ndarray:
        """The last layer's output (n, L - first, width); see `Policy`."""
        self._plant(sequences, first)
        shape = (len(sequences), self._asked, self.settings.width)
        hidden = np.empty(shape, dtype=self.values.dtype)
        self._library.forward(
            self._work.address, _at(self.values), len(sequences), None, 1.0, None, _at(hidden)
        )
        self._planted, self._targets = len(sequences), None
        return hidden

    def backward(self, slopes: np.ndarray) -> None:
        """Find the gradient; see `Policy`. Raises a `ValueError` for slopes of another shape."""
        shape = (self._planted, self._asked)
        by_hidden = self._targets is None
        shape = (*shape, self.settings.width) if by_hidden else shape
        if slopes.shape != shape:
            raise ValueError(f"slopes must be of shape {shape}, not {slopes.shape}")
        with np.errstate(over="ignore"):  # as inf it is found when training is checked
            slopes = np.ascontiguousarray(slopes, dtype=self.values.dtype)
        self._library.backward(
            self._work.address, _at(self.values), _at(self.gradient), self._planted,
            None if by_hidden else _at(self._targets),
            None if by_hidden else _at(slopes), _at(slopes) if by_hidden else None,
        )  # fmt: skip

    def rollout(
        self, prompts: np.ndarray, uniforms: np.ndarray, temperature: float = 1.0
    ) -> Rollout:
        """One completion after each of `prompts` (n, 7); see `Policy`."""
        prompts = _tokens(prompts, POSITIONS - COMPLETION_LENGTH)
        n, self._planted = len(prompts), 0
        if uniforms.shape != (COMPLETION_LENGTH, n):
            raise ValueError(f"uniforms must be of shape (3, {n}), not {uniforms.shape}")
        completions = np.empty((n, COMPLETION_LENGTH), dtype=np.int64)
        log_probs, entropy = (np.empty(completions.shape, self.values.dtype) for _ in range(2))
        for start in range(0, n, SEQUENCES_AT_ONCE):
            some = slice(start, min(n, start + SEQUENCES_AT_ONCE))
            drawn = np.ascontiguousarray(uniforms[:, some], dtype=np.float64)
            count = drawn.shape[1]
            self._make_room(count * POSITIONS, count * POSITIONS)
            _check(self._library.rollout(
                self._work.address, _at(self.values), count, prompts.shape[1], _at(prompts[some]),
                COMPLETION_LENGTH, _at(drawn), temperature,
                _at(completions[some]), _at(log_probs[some]), _at(entropy[some]),
            ))  # fmt: skip
        return Rollout(completions, log_probs, entropy)

    def grade(self, prompts: np.ndarray, solutions: np.ndarray, temperature: float = 1.0) -> Grades:
        """How it does on `prompts` (n, 7); see `Policy`."""
        prompts = _tokens(prompts, POSITIONS - COMPLETION_LENGTH)
        solutions = _tokens(solutions, COMPLETION_LENGTH)
        n, self._planted = len(prompts), 0
        if len(solutions) != n:
            raise ValueError(f"{n} prompts have {n} solutions, not {len(solutions)}")
        correct, log_probability = np.empty(n, dtype=np.bool_), np.empty(n)
        self._make_room(PROMPTS_AT_ONCE * POSITIONS, PROMPTS_AT_ONCE * POSITIONS)
        _check(self._library.grade(
            self._work.address, _at(self.values), n, PROMPTS_AT_ONCE, prompts.shape[1],
            _at(prompts), COMPLETION_LENGTH, _at(solutions), temperature,
            _at(correct), _at(log_probability),
        ))  # fmt: skip
        return Grades(correct, elementary.exp(log_probability))

    def _plant(self, sequences: np.ndarray, first: int) -> None:
        """Make the tree of `sequences` (n, L), and room to compute on it.

        There is nothing to go back from until that is done.
        """
        self._planted = 0
        sequences = _tokens(sequences, None)
        n, length = sequences.shape
        if not 0 <= first < length <= POSITIONS:
            raise ValueError(
                f"{length} tokens, asked from {first} on: there are {POSITIONS} positions"
            )
        self._make_room(n * length, 0)
        nodes = _check(self._library.plant(self._tree.address, n, length, first, _at(sequences)))
        self._make_room(0, nodes)
        self._asked = length - first

    def _make_room(self, tree_nodes: int, work_nodes: int) -> None:
        """See to it that a tree of so many nodes fits, and a pass over so many."""
        widest = max(
            3 * self.settings.width, self.settings.feed_forward, POSITIONS * self.settings.heads
        )
        if work_nodes * widest >= MOST_NUMBERS:
            raise ValueError(f"{work_nodes} distinct prefixes are too many for such a policy")
        grown = tree_nodes > self._tree_nodes or not self._tree_nodes
        if grown:
            self._tree_nodes = max(tree_nodes, 1)
            self._tree = _Block(self._library.tree_bytes(self._tree_nodes))
            self._library.prepare_tree(self._tree.address, self._tree_nodes)
        if grown or work_nodes > self._work_nodes:
            self._work_nodes = max(work_nodes, self._work_nodes, 1)
            self._work = _Block(self._library.work_bytes(self._work_nodes))
            self._library.prepare_work(self._work.address, self._work_nodes, self._tree.address)


class CompiledAdam:
    """AdamW on a `CompiledPolicy`."""

    def __init__(
        self, policy: CompiledPolicy, learning_rate: float, weight_decay: float, library: Library
    ) -> None:
        """Of a policy whose gradient it steps down."""
        self._policy, self._learning_rate, self._library = policy, learning_rate, library
        self._kept = policy.values.dtype.type(1 - learning_rate * weight_decay)
        self._means, self._squares = np.zeros_like(policy.values), np.zeros_like(policy.values)
        self._steps = 0

    def step(self, max_gradient_norm: float = float("inf")) -> float:
        """A step; see `Optimizer`."""
        self._steps += 1
        if self._kept != 1:
            self._policy.values *= self._kept
        return self._library.adam(
            _at(self._policy.values), _at(self._policy.gradient), _at(self._means),
            _at(self._squares), self._steps, self._learning_rate, max_gradient_norm,
        )  # fmt: skip


def policy(settings: PolicySettings, values: np.ndarray, device: str) -> CompiledPolicy:
    """The engine's policy with these weights (parameters,); its device is the CPU.

    Raises a `UserError` where the engine does not take its shape, or cannot be compiled here.
    """
    if not settings.whole_vectors():
        raise UserError(
            f"the compiled engine takes policies whose width / heads and feed_forward are "
            f"multiples of {LANES}, not {settings!r}. engine: torch takes any."
        )
    return CompiledPolicy(settings, values)
