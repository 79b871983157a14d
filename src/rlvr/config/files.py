"""Config files as text: what Snakemake would read in silence, or refuse without saying where.

`rlvr.config.settings.whole` checks what they say; this is about how they say it.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from rlvr.errors import UserError

PLAIN_NUMBER = re.compile(
    r"[-+]?(0|[1-9][0-9_]*)?(\.[0-9_]*)?(e[-+][0-9]+)?|[-+]?\.(inf|nan)", re.IGNORECASE
)


class _PlainLoader(yaml.SafeLoader):
    """YAML without its surprises: equal keys, of which it takes the last, and numbers like 042."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [
            self.construct_object(key, deep=deep)
            for key, _ in node.value
            if key.tag
            != "tag:yaml.org,2002:merge"  # `<<` brings keys along, for others to override
        ]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key} is there twice",
                    problem_mark=node.value[index][0].start_mark,
                )
        return super().construct_mapping(node, deep)


def _plain(construct: Callable[..., float]) -> Callable[[_PlainLoader, yaml.ScalarNode], float]:
    """What reads a number, but for those that mean another: 042 is 34, 1:30.0 90.0, 0x10 16."""

    def construct_plain(loader: _PlainLoader, node: yaml.ScalarNode) -> float:
        number = construct(loader, node)
        if not PLAIN_NUMBER.fullmatch(node.value):
            raise yaml.constructor.ConstructorError(
                problem=f"YAML takes {node.value} for {number}. Write the number that you mean in "
                "decimal digits, without leading zeros",
                problem_mark=node.start_mark,
            )
        return number

    return construct_plain


for _tag, _construct in (
    ("tag:yaml.org,2002:int", yaml.SafeLoader.construct_yaml_int),
    ("tag:yaml.org,2002:float", yaml.SafeLoader.construct_yaml_float),
):
    _PlainLoader.add_constructor(_tag, _plain(_construct))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises a `UserError` where a key is there twice."""
    keys = [key for key, _ in pairs]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            raise UserError(f"the key {key} is there twice")
    return dict(pairs)


def check_matplotlibrc(folder: Path) -> None:
    """Raise a `UserError` where Matplotlib could not even read its settings in this folder.

    It looks there whenever it is imported; what they say is then left out of account.
    """
    path = folder / "matplotlibrc"
    try:
        if path.is_file():
            path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path.absolute()}: {error}. Matplotlib reads it and fails, and with it every figure. "
            "Move it elsewhere."
        ) from None


def check_config_file(path: Path | str) -> None:
    """Raise a `UserError` that names file and place if it is neither JSON nor plain YAML.

    That is: unreadable, a key twice, a number that means another, or no mapping at its top.
    """
    if not Path(path).is_file():
        return  # Snakemake says so if it is missing; a pipe it has read already
    try:
        text = Path(path).read_text(encoding="utf-8")
        try:
            content = json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError:
            content = yaml.load(text, _PlainLoader)
    # A tag that does not fit its value, as !!int '', makes PyYAML fail in as many ways.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise UserError(f"{path} is neither JSON nor plain YAML: {error}") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no settings: it needs keys at its top level.")
