"""What computes a policy: a module per engine, which `engine` in the config names.

`compiled` is one C file, the same bytes on every machine; `torch` is plain PyTorch, for a GPU and
as the truth that tests compare with. A run depends on the module of its own engine alone.
"""

from importlib import import_module

import numpy as np

from rlvr.config.settings.jobs import MethodJob
from rlvr.config.settings.policy import PolicySettings
from rlvr.policy.policy import Policy


def policy_on(job: MethodJob, settings: PolicySettings, values: np.ndarray) -> Policy:
    """A policy with these weights (parameters,), on the engine and the device of a job.

    Raises a `UserError` where the engine cannot be had here, or not for such a policy.
    """
    return import_module(f"{__name__}.{job.engine}").policy(settings, values, job.device)
