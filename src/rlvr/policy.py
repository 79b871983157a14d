"""The policy: a small decoder-only Transformer over addition tokens, and its checkpoints.

The forward pass is the plain one, on PyTorch's own encoder layer with a causal mask.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rlvr.addition import ANSWER_LENGTH, OUTPUT_CLASSES, PROMPT_LENGTH, VOCABULARY
from rlvr.errors import UserError
from rlvr.records import replacing
from rlvr.settings import PolicySettings
from rlvr.streams import stream

POSITIONS = 1 + PROMPT_LENGTH + ANSWER_LENGTH  # BOS, prompt, answer


class Policy(nn.Module):
    """Pre-norm Transformer with learned positions and an untied head; 69,325 parameters by default.

    It stays in training mode, there being no dropout, so that all its forward passes take the
    same path through PyTorch.
    """

    def __init__(self, settings: PolicySettings) -> None:
        """Random weights, as PyTorch's layers initialise themselves."""
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, settings.width)
        self.positions = nn.Embedding(POSITIONS, settings.width)
        self.layers = nn.ModuleList(  # not nn.TransformerEncoder, whose layers all start equal
            nn.TransformerEncoderLayer(
                settings.width,
                settings.heads,
                settings.feed_forward,
                dropout=0.0,
                batch_first=True,
                norm_first=True,
            )
            for _ in range(settings.layers)
        )
        self.head = nn.Linear(settings.width, OUTPUT_CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, length, 13) of the token after each position of `tokens` (n, length)."""
        length = tokens.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(
            length, device=tokens.device, dtype=self.head.weight.dtype
        )
        hidden = self.tokens(tokens) + self.positions.weight[:length]
        for layer in self.layers:
            hidden = layer(hidden, src_mask=causal, is_causal=True)
        return self.head(hidden)

    def answer_logits(self, prompts: Tensor, answers: Tensor) -> Tensor:
        """Logits (n, 3, 13) of each answer token given the prompt (n, 7) and `answers` (n, 3)."""
        sequences = torch.cat([prompts, answers[:, :-1]], dim=1)
        return self(sequences)[:, -ANSWER_LENGTH:]

    def log_probs(self, prompts: Tensor, answers: Tensor) -> Tensor:
        """Log-probabilities (n, 3) of the tokens of `answers` (n, 3) after prompts (n, 7)."""
        log_probs = self.answer_logits(prompts, answers).log_softmax(dim=-1)
        return log_probs.gather(-1, answers.unsqueeze(-1)).squeeze(-1)

    def parameter_count(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


def initial_policy(settings: PolicySettings, seed: int) -> Policy:
    """A policy with the initial weights of the run seed, on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "initial_weights").initial_seed())
        return Policy(settings)


def prepare_torch(device: str) -> torch.device:
    """One thread, deterministic kernels, and the device that a `device` setting means.

    Raises a `UserError` where CUDA is asked for and there is none.
    """
    torch.set_num_threads(1)  # sums are then added in one order, and jobs share cores fairly
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it for that
    torch.use_deterministic_algorithms(True)
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "device is 'cuda', but PyTorch finds no CUDA device here. Use 'cpu' or 'auto'."
        )
    cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if cuda else "cpu")


def save_policy(policy: Policy, path: Path, provenance: dict[str, Any]) -> None:
    """Write the weights as safetensors, with `provenance` as JSON in the file's metadata."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in policy.state_dict().items()}
    # One metadata key only: safetensors does not keep the order of several.
    metadata = {"provenance": json.dumps(provenance)}
    with replacing(path) as partial:
        save_file(tensors, partial, metadata=metadata)


def load_policy(path: Path, settings: PolicySettings) -> tuple[Policy, dict[str, Any]]:
    """The policy of a checkpoint, on the CPU, and the checkpoint's provenance.

    Raises a `UserError` where the file is not a checkpoint of this architecture.
    """
    policy = Policy(settings)
    expected = {name: tuple(tensor.shape) for name, tensor in policy.state_dict().items()}
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            made_by = json.loads((file.metadata() or {}).get("provenance", "{}"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such checkpoint.") from None
    except (SafetensorError, ValueError, OSError) as error:  # whatever damage looks like
        raise UserError(
            f"{path}: not a readable safetensors file ({error}). Delete it and make it again."
        ) from None
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != expected:
        names = sorted(set(found) | set(expected))
        differing = [name for name in names if found.get(name) != expected.get(name)]
        raise UserError(
            f"{path}: a checkpoint of another architecture. {len(differing)} of {len(names)} "
            f"tensors differ, the first is {differing[0]}: found {found.get(differing[0])}, "
            f"expected {expected.get(differing[0])} for {settings!r}. "
            "Use the settings that it was made with, or delete it and make it again."
        )
    if not {"run", "settings"} <= made_by.keys():
        raise UserError(
            f"{path}: its metadata does not say what made it. Make it again by rlvr.sft."
        )
    policy.load_state_dict(tensors)
    return policy, made_by
