"""Checkpoints: a policy's weights as safetensors, with its architecture and what made it."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from rlvr.config.settings.policy import PolicySettings
from rlvr.errors import UserError
from rlvr.jobs.records import replacing
from rlvr.policy.transformer import Policy


def save_policy(policy: Policy, path: Path, provenance: dict[str, Any]) -> None:
    """Write the weights as safetensors, with `provenance` as JSON in the file's metadata.

    Raises a `UserError`, and writes nothing, where a weight is not finite.
    """
    tensors = {name: tensor.cpu().contiguous() for name, tensor in policy.state_dict().items()}
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise UserError(
            f"{path}: was not written, since it would hold weights that are not finite: training "
            "has diverged. It needs a smaller learning rate."
        )
    provenance = provenance | {"architecture": policy.settings.model_dump()}
    # One metadata key only: safetensors does not keep the order of several.
    metadata = {"provenance": json.dumps(provenance)}
    data = save(tensors, metadata)  # save_file has a temporary file of its own, and other errors
    with replacing(path) as partial:
        partial.write_bytes(data)


def load_policy(path: Path) -> tuple[Policy, dict[str, Any]]:
    """The policy of a checkpoint, on the CPU, and the checkpoint's provenance.

    Raises a `UserError` where the file is not a checkpoint of ours, whole and finite.
    """
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
    policy = Policy(settings)
    expected = {name: _kind(tensor) for name, tensor in policy.state_dict().items()}
    found = {name: _kind(tensor) for name, tensor in tensors.items()}
    if found != expected:
        names = sorted(set(found) | set(expected))
        differing = [name for name in names if found.get(name) != expected.get(name)]
        raise UserError(
            f"{path}: its weights are not of the architecture that its metadata names. "
            f"{len(differing)} of {len(names)} tensors differ, the first is {differing[0]}: found "
            f"{found.get(differing[0])}, expected {expected.get(differing[0])} for {settings!r}. "
            "Delete it and make it again."
        )
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise UserError(
            f"{path}: holds weights that are not finite. Delete it and make it again, "
            "with a smaller learning rate if that gives the same."
        )
    policy.load_state_dict(tensors)
    return policy, made_by


def _kind(tensor: Tensor) -> str:
    """What a checkpoint's tensor has to be, in words."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
