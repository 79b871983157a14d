"""Stages as commands: flags come from the settings' models, and errors are messages.

A stage is a pydantic model with a `cli_cmd` method that does its work.
"""

import logging
import shlex
import sys

from pydantic import BaseModel, ValidationError
from pydantic_settings import CliApp

from rlvr.errors import UserError
from rlvr.settings import explain


def flags(settings: BaseModel) -> str:
    """The flags that give a stage these settings, quoted for a shell."""
    return shlex.join(CliApp.serialize(settings))


def run(stage: type[BaseModel]) -> None:
    """Read `stage` from the command line and run it; exit with a message where that fails."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        CliApp.run(stage)
    except ValidationError as error:
        sys.exit(f"error: {explain(error, stage, 'the command line')}")
    except UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:  # a full disk, a read-only folder, a missing file
        sys.exit(f"error: {error}")
