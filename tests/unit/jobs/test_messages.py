import logging
from pathlib import Path

import pytest
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent

from rlvr.jobs import messages as run_messages
from rlvr.jobs.messages import RunMessages, failure, time_left


@pytest.mark.parametrize(
    ("done", "total", "seconds", "expected"),
    [
        (1, 2, 30, "about 30 s left"),
        (2, 3, 200, "about 100 s left"),
        (1, 3, 60, "about 2 min left"),
        (10, 172, 45, "about 12 min left"),
        (1, 5000, 10, "about 14 h left"),
    ],
)
def test_time_left(done, total, seconds, expected):
    assert time_left(done, total, seconds) == expected


def test_a_failed_job_by_stage_keys_and_the_end_of_its_log(tmp_path):
    log_file = tmp_path / "results/logs/grpo/recipe=base/teacher=weak/beta=0/seed=1.log"
    log_file.parent.mkdir(parents=True)
    log_file.write_text("".join(f"line {n}\n" for n in range(9)) + "error: diverged\n")
    assert failure("grpo", log_file) == [
        "grpo recipe=base, teacher=weak, beta=0, seed=1",
        f"  its log {log_file} ends:",
        *(f"      line {n}" for n in range(5, 9)),
        "      error: diverged",
    ]


def frame(path: object, line: str, calls: int = 1) -> str:
    """A stack trace's lines of calls in a file."""
    return f'  File "{path}", line 7, in call\n    {line}\n    ^^^\n' * calls


@pytest.mark.parametrize("library_calls", [0, 1, 30])
def test_of_a_stack_trace_the_author_s_own_line_is_shown(tmp_path, library_calls):
    rlvr = Path(run_messages.__file__).parents[1]
    log_file = tmp_path / "job.log"
    log_file.write_text(
        "10:00:00 iteration 1 of 600\nTraceback (most recent call last):\n"
        + frame(rlvr / "jobs/command_line.py", "CliApp.run(stage)")
        + frame(rlvr / "methods/grpo.py", "rewards = reward(asked, completions)")
        + frame(rlvr / "task/rewards/mine.py", "return completions.view(7)")
        + frame("/site-packages/torch/rlvr/view.py", "raise", library_calls)
        + "RuntimeError: shape '[7]' is invalid"
    )
    shown = "\n".join(failure("grpo", log_file))
    assert "rewards = reward(asked, completions)" in shown
    assert "return completions.view(7)" in shown
    assert shown.endswith("RuntimeError: shape '[7]' is invalid")
    assert "CliApp" not in shown
    assert len(shown.splitlines()) <= 23


@pytest.mark.parametrize("there", [True, False])
def test_a_job_that_could_say_nothing(tmp_path, there):
    log_file = tmp_path / "results/logs/claims.log"
    if there:
        log_file.parent.mkdir(parents=True)
        log_file.touch()
    assert failure("claims", log_file) == [
        "claims",
        f"  its log {log_file} is empty: it was killed (for memory?), or never started.",
    ]


def record(event: LogEvent, **more) -> logging.LogRecord:
    return logging.makeLogRecord({"event": event} | more)


def failed_job(folder: Path, number: int) -> logging.LogRecord:
    return record(
        LogEvent.JOB_ERROR,
        rule_name="sft",
        log=[f"{folder}/results/logs/sft/teacher=weak/seed={number}.log"],
        output=[f"{folder}/{number}.parquet"],
    )


@pytest.fixture
def messages() -> RunMessages:
    return RunMessages(logging.getLogger("test_run_messages"))


def test_the_summary_names_what_failed_and_is_still_missing(messages, tmp_path):
    for number in (1, 2, 2, 3):  # the second was tried twice
        messages.emit(failed_job(tmp_path, number))
    (tmp_path / "3.parquet").touch()  # of the third's group another failed, or it worked at last
    summary = messages.summary(tmp_path)
    assert summary.startswith("2 jobs failed.\n\nsft teacher=weak, seed=1\n")
    assert "seed=2" in summary
    assert "seed=3" not in summary
    assert "No space" not in summary
    assert summary.endswith("What is finished is kept, and only the rest runs.")


def test_without_a_failed_job_the_summary_does_not_count(messages, tmp_path):
    assert messages.summary(tmp_path).startswith("The run failed, see above.\n\nWhat to do:")


def test_a_long_summary_is_cut(messages, tmp_path):
    for number in range(8):
        messages.emit(failed_job(tmp_path, number))
    summary = messages.summary(tmp_path)
    assert summary.count("is empty") == 5
    assert "... and 3 more, see above." in summary


def test_the_time_left_is_said_now_and_then(messages, monkeypatch, caplog):
    with caplog.at_level("INFO"):
        for done, now in ((1, 4.0), (2, 12.0), (3, 15.0), (4, 24.0), (5, 60.0)):
            monkeypatch.setattr(
                run_messages.time, "monotonic", lambda now=now: messages.started + now
            )
            messages.emit(record(LogEvent.PROGRESS, done=done, total=5))
    assert caplog.messages == ["about 18 s left", "about 6 s left"]
    assert all(record.quietness == Quietness.PROGRESS for record in caplog.records)
