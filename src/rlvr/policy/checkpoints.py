"""Checkpoints: a policy's weights as safetensors, with its architecture and what made it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rlvr.config.settings.policy import PolicySettings
from rlvr.errors import UserError
from rlvr.jobs.records import replacing
from rlvr.policy.parameters import named, parameter_count, parameter_shapes
from rlvr.policy.policy import Policy


def save_policy(
    policy: Policy, path: Path, provenance: dict[str, Any], **heads: np.ndarray
) -> None:
    """Write the weights as safetensors, with `provenance` as JSON in the file's metadata.

    `heads` are those that a model has besides, each (width,). Raises a `UserError`, and writes
    nothing, where a weight is not finite.
    """
    weights = named(policy.values, policy.settings) | heads
    if not all(np.isfinite(weight).all() for weight in weights.values()):
        raise UserError(
            f"{path}: was not written, since it would hold weights that are not finite: training "
            "has diverged. It needs a smaller learning rate."
        )
    provenance = provenance | {"architecture": policy.settings.model_dump()}
    # One metadata key only: safetensors does not keep the order of several.
    metadata = {"provenance": json.dumps(provenance)}
    data = save(weights, metadata)  # save_file has a temporary file of its own, and other errors
    with replacing(path) as partial:
        partial.write_bytes(data)


class Checkpoint(NamedTuple):
    """What a file of weights holds."""

    settings: PolicySettings
    """The architecture."""
    values: np.ndarray
    """The weights (parameters,), in the order of `rlvr.policy.parameters`."""
    made_by: dict[str, Any]
    """The provenance."""
    heads: dict[str, np.ndarray]
    """What a model has besides, by name, each (width,)."""


def read_checkpoint(path: Path, *heads: str) -> Checkpoint:
    """The weights of a checkpoint that has these heads, with architecture and provenance.

    Raises a `UserError` where the file is not a checkpoint of ours, whole and finite.
    """
    try:
        with safe_open(path, framework="np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            made_by = json.loads((file.metadata() or {}).get("provenance", "{}"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such checkpoint.") from None
    except (SafetensorError, ValueError, OSError) as error:  # whatever damage looks like
        raise UserError(
            f"{path}: not a readable safetensors file ({error}). Delete it and make it again."
        ) from None
    try:
        settings = PolicySettings.model_validate(made_by["architecture"])
        known = {"run", "settings"} <= made_by.keys()
    except (LookupError, TypeError, ValidationError):
        known = False
    if not known:
        raise UserError(
            f"{path}: its metadata does not say what made it and which architecture it has. Delete "
            "it and make it again."
        )
    shapes = parameter_shapes(settings) | dict.fromkeys(heads, (settings.width,))
    expected = {name: f"float32 {shape}" for name, shape in shapes.items()}
    found = {name: f"{tensor.dtype} {tensor.shape}" for name, tensor in tensors.items()}
    if found != expected:
        names = sorted(set(found) | set(expected))
        differing = [name for name in names if found.get(name) != expected.get(name)]
        raise UserError(
            f"{path}: its weights are not of the architecture that its metadata names. "
            f"{len(differing)} of {len(names)} tensors differ, the first is {differing[0]}: found "
            f"{found.get(differing[0])}, expected {expected.get(differing[0])} for {settings!r}. "
            "Delete it and make it again."
        )
    values = np.empty(parameter_count(settings), dtype=np.float32)
    for name, view in named(values, settings).items():
        view[:] = tensors[name]
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise UserError(
            f"{path}: holds weights that are not finite. Delete it and make it again, "
            "with a smaller learning rate if that gives the same."
        )
    return Checkpoint(settings, values, made_by, {head: tensors[head] for head in heads})
