"""What a completion may earn, as `rewards` in the config has it: a typed model per kind.

A kind is a module of `rlvr.task.rewards`, a rule; or it is `learned`, of a reward model. What may
be set about a kind is a module of its name here; a rule that has nothing to set needs none.
"""

import inspect
import pkgutil
from importlib import import_module
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticCustomError

from rlvr.config.rewards.reward import RewardSettings
from rlvr.config.settings.names import REWARD_RULES

LEARNED = "learned"


def _settings_of(kind: str, parameters: set[str]) -> type[RewardSettings]:
    """The model of one kind; what may be set about it is what its module here defines."""
    base = RewardSettings
    if kind in parameters:
        module = f"{__name__}.{kind}"
        (base,) = (
            one
            for one in vars(import_module(module)).values()
            if inspect.isclass(one) and issubclass(one, RewardSettings) and one.__module__ == module
        )
    return create_model(
        f"Reward_{kind}", __base__=base, __doc__=base.__doc__, kind=(Literal[kind], ...)
    )


_PARAMETERS = {module.name for module in pkgutil.iter_modules(__path__)} - {"reward"}
MODELS = {kind: _settings_of(kind, _PARAMETERS) for kind in [*REWARD_RULES, LEARNED]}
"""The model of each kind of reward."""

Reward = Annotated[Union[*MODELS.values()], Field(discriminator="kind")]
"""An entry of `rewards` in the config."""

_REWARD = TypeAdapter(Reward)


def _allowed(reward: dict[str, Any]) -> dict[str, Any]:
    try:
        return _REWARD.validate_python(reward).model_dump()
    except ValidationError as error:
        (mistake, *_) = error.errors()
        path = ".".join(["reward", *map(str, mistake["loc"][1:])])
        raise PydanticCustomError(
            "reward", "{path}: {mistake}", {"path": path, "mistake": mistake["msg"]}
        ) from None


RewardFlag = Annotated[dict[str, Any], AfterValidator(_allowed)]
"""The same as a stage gets it: a flag has no room for one of several models."""
