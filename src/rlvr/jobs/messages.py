"""What the workflow says of a run beside Snakemake's own lines: the time left, and what failed.

The Snakefile adds it to Snakemake's logger.
"""

import logging
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent

SECONDS = 10.0
"""Between two estimates of the time left."""
MOST_FAILURES = 5
"""Failed jobs that are told of."""
LAST_LINES = 5
"""Lines of a failed job's log that are shown at least."""
MOST_LINES = 20
"""Those of a stack trace that are shown at most."""
OUR_CODE = re.compile(rf'^ *File "{re.escape(str(Path(__file__).parents[1]))}/')


def time_left(done: int, total: int, seconds: float) -> str:
    """How long the rest takes if its jobs are as long as those `done` in `seconds` seconds."""
    left = seconds / done * (total - done)
    for unit, length in (("h", 3600), ("min", 60)):
        if left >= 2 * length:
            return f"about {left / length:.0f} {unit} left"
    return f"about {left:.0f} s left"


def end_of_log(lines: Sequence[str]) -> list[str]:
    """The last lines of a log; where they end a stack trace, back to the last two calls of ours.

    Whoever wrote them looks for them, and not for what a library made of it.
    """
    ours = [number for number, line in enumerate(lines) if OUR_CODE.match(line)]
    end = list(lines[min([*ours[-2:], max(0, len(lines) - LAST_LINES)]) :])
    if len(end) > MOST_LINES:
        end = [*end[: MOST_LINES - LAST_LINES], "...", *end[-LAST_LINES:]]
    return end


def failure(rule: str, log_file: Path) -> list[str]:
    """The lines that tell of a failed job: its stage, run keys, and the end of its log."""
    keys = str(log_file.with_suffix("")).rpartition("logs/")[2].split("/")[1:]
    try:
        lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    if lines:
        end = [f"its log {log_file} ends:", *(f"    {line}" for line in end_of_log(lines))]
    else:
        end = [f"its log {log_file} is empty: it was killed (for memory?), or never started."]
    return [f"{rule} {', '.join(keys)}".rstrip(), *(f"  {line}" for line in end)]


class RunMessages(logging.Handler):
    """Listens to Snakemake's events; `summary` is for when a run has failed."""

    def __init__(self, logger: logging.Logger) -> None:
        """Write on `logger`, Snakemake's own."""
        super().__init__()
        self.logger = logger
        self.started = self.told = time.monotonic()
        self.failed: dict[str, logging.LogRecord] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Note what failed; now and then, say how long it still takes."""
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_ERROR:
            self.failed[record.log[0]] = record
        elif event == LogEvent.PROGRESS and record.done < record.total:
            self._tell_time_left(record.done, record.total)

    def _tell_time_left(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.told >= SECONDS:
            self.told = now
            message = time_left(done, total, now - self.started)
            self.logger.info(message, extra={"quietness": Quietness.PROGRESS})

    def summary(self, results: Path) -> str:
        """What failed and what to do. `results` is where there may be no space left."""
        # A job of a group, or one that was tried again, may have done its work all the same.
        failed = {
            log_file: record.rule_name
            for log_file, record in self.failed.items()
            if not all(Path(output).exists() for output in record.output)
        }
        count = f"{len(failed)} {'job' if len(failed) == 1 else 'jobs'}"
        lines = [f"{count} failed." if failed else "The run failed, see above."]
        for log_file, rule in list(failed.items())[:MOST_FAILURES]:
            lines += ["", *failure(rule, Path(log_file).absolute())]
        if len(failed) > MOST_FAILURES:
            lines += ["", f"... and {len(failed) - MOST_FAILURES} more, see above."]
        if shutil.disk_usage(results if results.exists() else Path()).free < 2**20:
            lines += ["", f"No space left in {results}/. Make room, then run again."]
        lines += [
            "",
            "What to do: mend what the log names, then give the same command again. What is "
            "finished is kept, and only the rest runs.",
        ]
        return "\n".join(lines)
