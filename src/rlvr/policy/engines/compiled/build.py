"""Compiles engine.c for one shape of network, once: later jobs and sessions find the library.

The compiler is Zig's, a package of the lock file: no machine needs one of its own. What it makes
lies in the environment or, where that is not writable, in the user's cache folder.
"""

import contextlib
import functools
import hashlib
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock
from platformdirs import user_cache_path

from rlvr.config.settings.policy import PolicySettings
from rlvr.errors import UserError
from rlvr.task.addition import OUTPUT_CLASSES, POSITIONS, VOCABULARY

SOURCE = Path(__file__).with_name("engine.c")
ZIG = (sys.executable, "-m", "ziglang", "cc")
# The compiler fuses and reorders nothing: the order of every operation is that of the source.
EXACT = ("-ffp-contract=off", "-fno-math-errno")
QUIET = ("-Wno-psabi", "-Wno-pass-failed")  # of vectors and loops that a target does otherwise
X86 = {"x86_64", "amd64"}
ANOTHER = "engine: torch in the config computes without it, more slowly"


def definitions(settings: PolicySettings, dtype: np.dtype) -> list[str]:
    """The options that give engine.c its sizes and its kind of number."""
    sizes = {
        "WIDTH": settings.width,
        "HEADS": settings.heads,
        "FEED_FORWARD": settings.feed_forward,
        "LAYERS": settings.layers,
        "VOCABULARY": VOCABULARY,
        "POSITIONS": POSITIONS,
        "CLASSES": OUTPUT_CLASSES,
        "REAL": {"float32": "float", "float64": "double"}[np.dtype(dtype).name],
    }
    return [f"-D{name}={value}" for name, value in sizes.items()]


def target() -> str:
    """The oldest processor that is supported: so one build serves all machines of a cluster."""
    return "-march=x86_64_v3" if platform.machine().lower() in X86 else "-mcpu=baseline"


def folders() -> list[Path]:
    """Where libraries may lie: in the environment, or in the user's cache."""
    return [Path(sys.prefix, "var", "rlvr"), user_cache_path("rlvr")]


@functools.cache
def library(settings: PolicySettings, dtype: np.dtype) -> Path:
    """The shared library for policies of this shape, compiled where there is none yet.

    Raises a `UserError` where it can neither be found nor made.
    """
    options = [*EXACT, *QUIET, "-O2", target(), *definitions(settings, dtype)]
    key = hashlib.sha256("\0".join([SOURCE.read_text(encoding="utf-8"), *options]).encode())
    name = f"engine-{sysconfig.get_platform()}-{key.hexdigest()[:16]}.so"
    problems = []
    for folder in folders():
        if (path := folder / name).is_file():
            return path
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _alone(folder / f"{name}.lock"):
                if not path.is_file():  # another job may have made it meanwhile
                    _make(path, options)
            return path
        except OSError as error:
            problems.append(f"{folder}: {error.strerror or error}")
    raise UserError(
        "the engine is compiled once, and there is nowhere to put it: "
        f"{'; '.join(problems)}. Make one of these folders writable (XDG_CACHE_HOME sets the "
        f"last). {ANOTHER}."
    )


def _make(path: Path, options: Sequence[str]) -> None:
    """Compile beside `path`, then move there: it is whole, or not there.

    Raises a `UserError` where the compiler fails.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    command = [*ZIG, *options, "-shared", "-fPIC", "-o", str(partial), str(SOURCE)]
    # Zig keeps what it compiles of its own library: beside ours, since HOME may be read-only.
    caches = ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
    environment = os.environ | dict.fromkeys(caches, str(path.with_name("zig")))
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise UserError(
                f"the engine could not be compiled, by {' '.join(command)}:\n"
                f"{done.stderr.strip()}\n{ANOTHER}."
            )
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time, where the file system has locks; without them each does the work."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(NotImplementedError):
            stack.enter_context(FileLock(lock))
        yield
