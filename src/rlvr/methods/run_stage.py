"""What every run from an SFT policy reads and writes, whatever the method that trains it."""

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import ValidationError, field_validator
from pydantic_core import PydanticCustomError

from rlvr.config.methods import JOBS
from rlvr.config.methods.sft import SftJob
from rlvr.config.runs import Run, SftRun
from rlvr.config.settings.jobs import MethodJob
from rlvr.errors import UserError
from rlvr.jobs import command_line
from rlvr.jobs.records import provenance, write_parquet
from rlvr.policy.checkpoints import read_checkpoint, save_policy
from rlvr.policy.engines import policy_on
from rlvr.policy.policy import Policy
from rlvr.task.splits import Split, split_prompts


class Start(NamedTuple):
    """Where a run starts from."""

    policy: Policy
    """The SFT policy, on the job's engine."""
    split: Split
    """Which prompts its teacher showed, and which are held out."""
    made_by: dict[str, Any]
    """The provenance of its checkpoint."""


def read_start(path: Path, job: MethodJob) -> Start:
    """Read an SFT checkpoint for a job. Raises a `UserError` where the file is none."""
    checkpoint = read_checkpoint(path)
    try:
        teacher = SftJob.model_validate(checkpoint.made_by["settings"]).teacher
    except ValidationError:
        raise UserError(
            f"{path}: its metadata does not hold the settings of an SFT run of this version. Make "
            "it again by rlvr.methods.sft."
        ) from None
    policy = policy_on(job, checkpoint.settings, checkpoint.values)
    return Start(policy, split_prompts(teacher.split), checkpoint.made_by)


def check_start(path: Path, start: Start, run: SftRun) -> None:
    """Raise a `UserError` where an SFT policy is not that of a run's teacher and seed."""
    keys = {"teacher": run.teacher, "seed": run.seed}
    if start.made_by["run"] != keys:
        raise UserError(
            f"{path}: holds the SFT policy of {start.made_by['run']}, and this is a run of {keys}. "
            "Name the policy of that run."
        )


class RunStage(command_line.Stage):
    """The command line of a run; a method's stage adds the settings of its job."""

    run: Run
    """Keys of this run."""
    sft_policy: Path
    """The SFT weights to start from, which are the reference policy too (safetensors)."""
    policy_out: Path
    """The weights to write (safetensors)."""
    metrics_out: Path
    """The metrics to write (Parquet)."""

    @field_validator("run")
    @classmethod
    def _is_of_this_method(cls, run: Run) -> Run:
        if not issubclass(cls, JOBS.get(run.method, ())):
            raise PydanticCustomError("method", "run.method is not the method of this stage")
        return run

    def write(
        self,
        policy: Policy,
        rows: list[dict[str, Any]],
        schema: pa.Schema,
        start: Start,
        **more: dict[str, Any],
    ) -> None:
        """Write weights and metrics, with their provenance; `more` is that of other inputs."""
        method = self.run.method
        made_by = provenance(
            f"rlvr.methods.{method}",
            self.run.model_dump(),
            self.model_dump(include=set(JOBS[method].model_fields)),
            self.modules(),
            parameters=len(policy.values),
            sft=start.made_by,
            **more,
        )
        save_policy(policy, self.policy_out, made_by)
        write_parquet(self.metrics_out, rows, schema, made_by)
