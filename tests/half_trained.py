"""Trains the policy that tests start from: right on some prompts, wrong on others.

Tests read the file that was made once:
    PYTHONPATH=tests python tests/half_trained.py [SEED]
"""

import sys
from pathlib import Path

from helpers import CPU, FULL_SIZE, sft_settings

from rlvr.config.methods.sft import SftJob
from rlvr.config.settings.teachers import TeacherSettings
from rlvr.jobs.records import provenance
from rlvr.methods.sft import train
from rlvr.policy.checkpoints import save_policy

PATH = Path(__file__).with_suffix(".safetensors")
JOB = SftJob(
    **CPU,
    policy=FULL_SIZE,
    teacher=TeacherSettings(truth_probability=0.5),
    sft=sft_settings(steps=250, batch_size=128),
)

if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    policy, rows = train(JOB, seed)
    save_policy(
        policy,
        PATH,
        provenance("rlvr.methods.sft", {"seed": seed}, JOB.model_dump(), JOB.modules()),
    )
    print(rows[-1])
