"""How far a training loop is: a bar on a terminal, else a line in the log every few seconds."""

import io
import logging
import sys
from typing import Any

from tqdm import tqdm

log = logging.getLogger("rlvr.jobs.progress")

SECONDS = 5.0
"""Between two lines in the log."""

tqdm.monitor_interval = 0  # no thread beside the one that trains


class Progress(tqdm):
    """Counts `total` of `unit`, from 1. A tqdm bar, also as a context manager."""

    def __init__(self, total: int, unit: str) -> None:
        """Start to count."""
        self.on_terminal = sys.stderr.isatty()
        looks: dict[str, Any] = {"dynamic_ncols": True}
        if not self.on_terminal:
            looks = {
                "bar_format": "{desc} {n_fmt} of {total_fmt}{postfix}; "
                "{elapsed} passed, {remaining} left",
                "mininterval": SECONDS,
                "delay": 1e-9,  # else a first line comes before the first step
                "file": io.StringIO(),  # `display` writes to the log
            }
        super().__init__(range(1, total + 1), desc=unit, miniters=1, **looks)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Show the present state; tqdm calls it when it is due."""
        if self.on_terminal:
            super().display(msg, pos)
        else:
            log.info("%s", str(self))  # now: it goes on counting
