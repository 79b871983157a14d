"""What a completion earns in a run: by a rule, or by a reward model. GRPO does not know which."""

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rlvr.config.methods.grpo import GrpoJob
from rlvr.config.runs import Run
from rlvr.errors import UserError
from rlvr.methods.run_stage import Start
from rlvr.task.rewards import Reward, rule


class RewardSource(NamedTuple):
    """A reward, and what made it."""

    reward: Reward
    made_by: dict[str, Any]
    """Provenances of the files that it came from, by what they are; a rule has none."""


def prepare_reward(job: GrpoJob, start: Start, run: Run, model: Path | None) -> RewardSource:
    """The reward of a job. Raises a `UserError` where its model is missing, or does not fit."""
    name, settings = job.grpo.reward, job.reward
    if job.is_learned:
        if model is None:
            raise UserError(f"the reward {name} is learned: it needs --reward-model.")
        learned = import_module("rlvr.methods.learned_reward")  # no run of a rule rests on it
        reward, made_by = learned.read_reward(model, job, start, run)
        return RewardSource(reward, {"reward_model": made_by})
    if model is not None:
        raise UserError(f"the reward {name} is a rule: it takes no --reward-model.")
    return RewardSource(rule(**settings), {})
