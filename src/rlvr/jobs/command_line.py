"""Stages as commands: flags come from the settings' models, and errors are messages.

A stage is a `Stage` with a `cli_cmd` method that does its work.
"""

import gc
import logging
import shlex
import sys
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict, SettingsError

from rlvr.config.settings.mistakes import explain
from rlvr.errors import UserError


class Stage(BaseSettings):
    """A stage's command line; its fields come from nowhere else, environment variables included."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        case_sensitive=True,
        cli_kebab_case=True,
        cli_enforce_required=True,
    )

    @classmethod
    def settings_customise_sources(cls, settings_cls: Any, init_settings: Any, **_: Any) -> tuple:
        """Keep what is passed in; the command line joins by itself."""
        return (init_settings,)


LONGEST_FLAGS = 120_000  # bytes; a shell gets its command as one argument: 131,072 on Linux


def flags(settings: BaseModel) -> str:
    """The flags that give a stage these settings, quoted for a shell.

    Raises a `UserError` where they are too many for one command.
    """
    line = shlex.join(CliApp.serialize(settings))
    if len(line) > LONGEST_FLAGS:
        raise UserError(
            f"these settings are too long for a command: {line[:300]} ... ({len(line):,} "
            f"characters, of which it has room for {LONGEST_FLAGS:,}). Split them, a study in two."
        )
    return line


def run(stage: type[Stage]) -> None:
    """Read `stage` from the command line and run it; exit with a message where that fails."""
    gc.freeze()  # all that was imported: no collection looks at it again
    gc.enable()  # `rlvr/__init__.py` disabled it
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    log = logging.getLogger("rlvr")
    log.setLevel(logging.INFO)  # ours alone: libraries say too much at INFO
    if "rlvr.jobs.isolation" not in sys.modules:  # started by a profiler, say
        log.warning(
            "not started as python -m rlvr.ROOM.STAGE: your environment may reach the result"
        )
    try:
        CliApp.run(stage)
    except ValidationError as error:
        sys.exit(f"error: {explain(error, stage, 'the command line')}")
    except (UserError, SettingsError) as error:
        sys.exit(f"error: {error}")
    except OSError as error:  # a full disk, a read-only folder, a missing file
        sys.exit(f"error: {error}")
