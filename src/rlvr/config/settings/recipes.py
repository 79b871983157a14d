"""Recipes: named changes to the settings of a method."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Literal

from pydantic import GetCoreSchemaHandler, create_model
from pydantic_core import core_schema

from rlvr.config.methods import RUN_METHODS, SETTINGS
from rlvr.config.values import Strict

BASE_METHOD = "grpo"
"""The method of a recipe that names none."""


def _changes_to(method: str) -> type[Strict]:
    """Settings of a method of which every key may be left out; a key that is given is checked."""
    fields: dict[str, Any] = {"method": (Literal[method], method)}
    for key, field in SETTINGS[method].model_fields.items():
        optional = copy(field)
        optional.default = None
        fields[key] = (field.annotation, optional)
    return create_model(f"Recipe_{method}", __base__=Strict, __doc__="A recipe.", **fields)


MODELS = {method: _changes_to(method) for method in RUN_METHODS}


def _method_of(recipe: Any) -> Any:
    """The method that a recipe names; what is no recipe at all is refused as one of `grpo`."""
    if isinstance(recipe, Mapping):
        return recipe.get("method", BASE_METHOD)
    return getattr(recipe, "method", BASE_METHOD)  # of one that is written out again


class Recipe(Strict):
    """A named change to the settings of the method that it names, `grpo` if none."""

    method: str
    """The method."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """That of the method's own model."""
        return core_schema.tagged_union_schema(
            {method: handler.generate_schema(model) for method, model in MODELS.items()},
            discriminator=_method_of,
        )
