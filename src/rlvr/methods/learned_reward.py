"""A learned reward: the score that a reward model gives a completion."""

from pathlib import Path
from typing import Any

import numpy as np

from rlvr.config.methods.grpo import GrpoJob
from rlvr.config.runs import RewardModelRun, Run
from rlvr.errors import UserError
from rlvr.methods.run_stage import Start
from rlvr.policy.checkpoints import read_checkpoint
from rlvr.policy.engines import policy_on
from rlvr.policy.scores import SCORE_HEAD, ScoreModel
from rlvr.task.addition import Additions
from rlvr.task.rewards import Reward


def read_reward(path: Path, job: GrpoJob, start: Start, run: Run) -> tuple[Reward, dict[str, Any]]:
    """The reward of a reward model, and how that was made.

    Raises a `UserError` where the file holds none, or one of another run or architecture.
    """
    checkpoint = read_checkpoint(path, SCORE_HEAD)
    expected = RewardModelRun(reward=job.grpo.reward, **run.start.model_dump()).model_dump()
    if checkpoint.made_by["run"] != expected:
        raise UserError(
            f"{path}: holds the reward model {checkpoint.made_by['run']}, and this run learns from "
            f"{expected}. Name that."
        )
    if checkpoint.settings != start.policy.settings:
        raise UserError(
            f"{path}: is a reward model of {checkpoint.settings!r}, and the SFT policy is one of "
            f"{start.policy.settings!r}. Make it again from that policy."
        )
    transformer = policy_on(job, checkpoint.settings, checkpoint.values)
    model = ScoreModel(transformer, checkpoint.heads[SCORE_HEAD])

    def reward(
        additions: Additions, completions: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """The score of each completion (n,)."""
        return model.score(additions.prompts(), completions)

    return reward, checkpoint.made_by
