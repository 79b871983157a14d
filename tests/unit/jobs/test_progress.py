import os
import pty
import subprocess
import sys
import termios

import pytest

from rlvr.jobs import progress

CODE = """
import logging
from rlvr.jobs.progress import Progress
logging.basicConfig(format="%(message)s", level=logging.INFO)
with Progress(3, "step") as steps:
    for step in steps:
        steps.set_postfix_str(f"loss {step / 10}", refresh=False)
        STOP
print("after", flush=True)
"""


def test_a_terminal_shows_a_bar():
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    command = [sys.executable, "-c", CODE.replace("STOP", "")]
    subprocess.run(command, stdout=theirs, stderr=theirs, check=True)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(theirs)
    assert "3/3 [" in shown
    assert "100%|█" in shown
    assert "loss 0.3" in shown
    assert shown.endswith("\r\nafter\r\n")


def lines(stop: str = "") -> list[str]:
    command = [sys.executable, "-c", CODE.replace("STOP", stop)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()


def test_a_log_has_whole_lines_and_the_last_state():
    assert lines() == ["step 3 of 3, loss 0.3; 00:00 passed, 00:00 left"]


def test_a_loop_that_stops_early_says_where():
    (line,) = lines("if step == 2: break")
    assert line.startswith("step 1 of 3, loss 0.2; ")


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, [1, 2, 3, 4, 4]), (60.0, [4])])
def test_a_log_has_a_line_every_few_seconds(monkeypatch, caplog, seconds, expected):
    monkeypatch.setattr(progress, "SECONDS", seconds)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: False)
    with caplog.at_level("INFO", "rlvr.jobs.progress"), progress.Progress(4, "iteration") as steps:
        assert list(steps) == [1, 2, 3, 4]
    counts = [int(message.split()[1]) for message in caplog.messages]
    assert counts == expected
