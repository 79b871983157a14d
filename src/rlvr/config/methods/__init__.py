"""What each way to learn may be told: a module per method, named like its group in config.yaml.

Nothing lists the methods. A module defines the method's job, a subclass of `MethodJob` with a field
of the method's name; if that is a `RunSettings`, recipes can change it and studies hold its runs.
"""

import inspect
import pkgutil
from importlib import import_module

from rlvr.config.settings.jobs import MethodJob, RunSettings
from rlvr.config.values import Strict


def _job_in(module: str) -> type[MethodJob]:
    """The job that a module defines."""
    jobs = [
        one
        for one in vars(import_module(module)).values()
        if inspect.isclass(one) and issubclass(one, MethodJob) and one.__module__ == module
    ]
    name = module.rpartition(".")[2]
    if len(jobs) != 1 or name not in jobs[0].model_fields:
        raise TypeError(f"{module}: must define one subclass of MethodJob, with a field {name}")
    return jobs[0]


JOBS: dict[str, type[MethodJob]] = {
    module.name: _job_in(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)
}
SETTINGS: dict[str, type[Strict]] = {
    method: job.model_fields[method].annotation for method, job in JOBS.items()
}
RUN_METHODS = [method for method, settings in SETTINGS.items() if issubclass(settings, RunSettings)]
"""Methods whose runs start from an SFT policy, one for each (recipe, teacher, beta, seed)."""
