"""Mistakes in settings, in words: where, what was found, what is allowed."""

import difflib
from collections.abc import Mapping
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from rlvr.config.rewards import MODELS as REWARD_MODELS
from rlvr.config.rewards import Reward
from rlvr.config.settings.recipes import MODELS, Recipe
from rlvr.config.values import LONGEST_NAME

OF_SEVERAL_KEYS = ("base", "beta", "engine", "recipe", "reward")
"""Kinds of mistakes that name their keys themselves."""
UNIONS = {
    "recipes": ("method", "methods", MODELS),
    "rewards": ("kind", "kinds of rewards", REWARD_MODELS),
}
"""Groups whose entries are of one of several models: the key that says which, and the models."""


def explain(error: ValidationError, model: type[BaseModel], source: str) -> str:
    """All mistakes of a validation, a line each: path, what was found, what is allowed."""
    mistakes = [_explain_one(mistake, model) for mistake in error.errors(include_url=False)]
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    return "\n".join([f"{count} in {source}:", *(f"  {line}" for line in mistakes)])


def _explain_one(mistake: Mapping[str, Any], model: type[BaseModel]) -> str:
    location = mistake["loc"]
    path = ".".join(_keys_in(location)) or "(top level)"
    found = repr(mistake["input"])
    found = found if len(found) <= 60 else f"{found[:57]}..."
    kind, message = mistake["type"], mistake["msg"]
    if kind == "missing":
        return f"{path}: missing. Add this key; see config.yaml for its meaning."
    if kind == "extra_forbidden":
        allowed = _keys_at(model, location[:-1])
        close = difflib.get_close_matches(str(location[-1]), allowed, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        return f"{path}: unknown key.{hint} Allowed here: {', '.join(allowed)}."
    if kind in OF_SEVERAL_KEYS:
        return f"{message}."
    if kind.startswith("union_tag"):
        key, kinds, tags = UNIONS[location[0]]
        found = f"found {mistake['ctx']['tag']!r}" if "tag" in mistake["ctx"] else "missing"
        return f"{path}.{key}: {found}. Not among the {kinds}; allowed: {', '.join(tags)}."
    if kind in ("string_pattern_mismatch", "string_too_long"):
        message = (
            "names are lower-case letters, digits and _, begin with a letter, and have at most "
            f"{LONGEST_NAME} characters"
        )
    if kind == "multiple_of":
        message += " (a sum stays with its mirror, a + b with b + a)"
    if kind == "less_than_equal" and mistake["ctx"]["le"] >= 1e15:
        message = f"input should be at most {mistake['ctx']['le']:g}"  # not all of its zeros
    if kind.startswith(("int_", "float_")) and isinstance(mistake["input"], str):
        message += (
            " (numbers are written without quotes; YAML takes 1e-3 for text and wants 1.0e-3; "
            "--config takes what is inside brackets for text: use --configfile)"
        )
    return f"{path}: found {found}. {message[0].upper()}{message[1:]}."


def _keys_in(location: tuple[Any, ...]) -> list[str]:
    """The keys of a path in the config, of which pydantic has more."""
    if location and location[0] in UNIONS:  # the third part is which of the models it is
        location = location[:2] + location[3:]
    return [str(part) for part in location if part != "[key]"]


def _keys_at(model: Any, location: tuple[Any, ...]) -> list[str]:
    """The keys that are allowed at a path of the config."""
    for part in location:
        if model is Recipe:
            model = MODELS[part]
        elif model is Reward:
            model = REWARD_MODELS[part]
        elif isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[part].annotation
            if NoneType in get_args(model):  # model | None
                model = get_args(model)[0]
        else:  # dict[name, model]
            model = get_args(model)[-1]
    return list(model.model_fields)
