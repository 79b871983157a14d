"""Of the user's environment a stage keeps what it needs to run, nothing that could reach a result.

`rlvr/__init__.py` sees to it when `python -m rlvr.STAGE` begins: libraries read their variables for
kernels, rounding, threads and backends when they are imported.
"""

import os
import sys

KEPT = {
    *("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"),
    *("TERM", "COLUMNS", "LINES"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"),
}
"""Where things are, how wide a terminal is, and which of several devices to take."""
FIXED = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MATPLOTLIBRC": os.devnull,
}


def isolate() -> None:
    """Clear all other variables, and let no file of the user's hide a module of Python's own.

    The working folder, which `python -m` looks into first, and PYTHONPATH may hold a `random.py`:
    or a `pathlib.py`, so that nothing is imported here.
    """
    for name in set(os.environ) - KEPT:
        del os.environ[name]
    os.environ.update(FIXED)
    sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]  # noqa: PTH109
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    sys.path.sort(key=lambda entry: entry not in (library, f"{library}/lib-dynload"))
