"""engine.c: the same bytes from every compiler and processor, clean memory, and how it is built."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import (
    CPU,
    EXACT,
    FULL_SIZE,
    ROOT,
    SMALL,
    dpo_job,
    grpo_job,
    pairs_in,
    reward_model_job,
    sft_settings,
    small_policy,
)

from rlvr.config.methods.preferences import PreferencesSettings
from rlvr.config.methods.sft import SftJob
from rlvr.config.settings.policy import PolicySettings
from rlvr.config.settings.teachers import SplitSettings, TeacherSettings
from rlvr.errors import UserError
from rlvr.methods import dpo, grpo, reward_model, sft
from rlvr.methods.preferences import draw_pairs
from rlvr.methods.run_stage import Start
from rlvr.policy.engines import compiled
from rlvr.policy.engines.compiled import CompiledPolicy, Library, build
from rlvr.policy.exam import grade, prepare_exam
from rlvr.policy.parameters import initial_values
from rlvr.task.splits import split_prompts

DRIVER = ROOT / "tests/engine/driver.c"
HASHES = {"float32": "6440c10ad91ce8d3", "float64": "1b5af1e8d68432cf"}
"""What the driver prints, everywhere."""


def gcc() -> str | None:
    """A GCC that knows the vectors which engine.c uses: from 12 on."""
    path = shutil.which("gcc")
    version = path and subprocess.run([path, "-dumpversion"], capture_output=True, text=True).stdout
    return path if version and int(version.split(".")[0]) >= 12 else None


X86 = build.platform.machine().lower() in build.X86
GCC = pytest.mark.skipif(not gcc(), reason="there is no gcc, or one before 12")
ON_X86 = pytest.mark.skipif(not X86, reason="of x86-64 processors")
EMULATED = pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="there is no qemu-aarch64")
V3, NATIVE = ("-march=x86-64-v3", "-march=native")

BUILDS = [  # compiler, options, what runs the program
    pytest.param("zig", ["-O1", "-march=x86_64_v3"], [], marks=ON_X86),
    pytest.param("zig", ["-O3", "-march=x86_64_v3"], [], marks=ON_X86),
    pytest.param("zig", ["-O2", "-march=native"], []),
    pytest.param("zig", ["-O2", "-march=x86_64", "-lm"], [], marks=ON_X86),  # without AVX2 and FMA
    pytest.param("gcc", ["-O1", V3], [], marks=[GCC, ON_X86]),
    pytest.param("gcc", ["-O2", V3], [], marks=[GCC, ON_X86]),
    pytest.param("gcc", ["-O3", V3], [], marks=[GCC, ON_X86]),
    pytest.param("gcc", ["-O3", NATIVE], [], marks=GCC),
    pytest.param("zig", ["-O1", "-target", "aarch64-linux-musl"], ["qemu-aarch64"], marks=EMULATED),
    pytest.param("zig", ["-O3", "-target", "aarch64-linux-musl"], ["qemu-aarch64"], marks=EMULATED),
]


def compile_(compiler, options, settings, dtype, *arguments):
    command = build.ZIG if compiler == "zig" else [gcc()]
    sizes = build.definitions(settings, np.dtype(dtype))
    done = subprocess.run(
        [*command, *build.EXACT, *build.QUIET, *sizes, *arguments, *options],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


def driver(folder, compiler, options, settings=FULL_SIZE, dtype="float32"):
    """The driver as a program."""
    out = folder / "driver"
    engine = f'-DENGINE="{build.SOURCE}"'
    compile_(compiler, options, settings, dtype, engine, str(DRIVER), "-o", str(out), "-lm")
    return out


def check_driver(folder, compiler, options, runner, dtype):
    program = driver(folder, compiler, options, dtype=dtype)
    done = subprocess.run([*runner, program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, HASHES[dtype]), done.stderr


@pytest.mark.parametrize(("compiler", "options", "runner"), BUILDS, ids=str)
def test_the_same_bytes_from_every_build(tmp_path, compiler, options, runner):
    """A dozen steps of sampling, training and exams, hashed number by number."""
    check_driver(tmp_path, compiler, options, runner, "float32")


@pytest.mark.parametrize(
    ("compiler", "options", "runner"), [BUILDS[1], BUILDS[7], BUILDS[9]], ids=str
)
def test_the_same_bytes_in_float64(tmp_path, compiler, options, runner):
    check_driver(tmp_path, compiler, options, runner, "float64")


@GCC
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "settings",
    [
        FULL_SIZE,
        SMALL,
        PolicySettings(width=24, heads=3, feed_forward=8, layers=1),
        PolicySettings(width=8, heads=1, feed_forward=264, layers=3),
    ],
    ids=str,
)
def test_memory_and_undefined_behaviour(tmp_path, settings, dtype):
    """Under ASan and UBSan, blocks being as small as can be and their parts fenced off."""
    sanitizers = ["-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = driver(tmp_path, "gcc", sanitizers, settings, dtype)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# --- What Python makes of it ----------------------------------------------------------------------

LIBRARIES = [
    pytest.param(("zig", "-O1", "-march=x86_64_v3"), marks=ON_X86),
    pytest.param(("zig", "-O2", "-march=native")),
    pytest.param(("gcc", "-O3", V3), marks=[GCC, ON_X86]),
    pytest.param(("gcc", "-O2", NATIVE), marks=GCC),
]


@pytest.fixture(scope="module", params=[None, *LIBRARIES], ids=str)
def library(request, tmp_path_factory):
    """The engine as every user has it, and as other compilers and options make it."""
    if request.param is None:
        return Library(str(build.library(FULL_SIZE, np.dtype("float32"))))
    compiler, *options = request.param
    out = tmp_path_factory.mktemp("library") / "engine.so"
    arguments = ["-shared", "-fPIC", "-o", str(out), str(build.SOURCE)]
    compile_(compiler, options, FULL_SIZE, "float32", *arguments)
    return Library(str(out))


def digest(policy, rows):
    numbers = repr(rows).encode()
    return hashlib.sha256(policy.values.tobytes() + numbers).hexdigest()[:16]


def test_sft_is_the_same_bytes_everywhere(library, monkeypatch):
    monkeypatch.setattr(compiled, "_library", lambda *_: library)
    teacher = TeacherSettings(truth_probability=0.3)
    settings = sft_settings(steps=12, batch_size=64)
    job = SftJob(**CPU, policy=FULL_SIZE, teacher=teacher, sft=settings)
    assert digest(*sft.train(job, seed=1)) == "1adf28b96391cd82"


GRPO = {
    "advantage, sequence": ({}, "cdc7f0be4558ee05"),
    "advantage, token": ({"ratio": "token", "temperature": 0.7}, "42744a0e069393eb"),
    "loss, sequence": ({"kl_placement": "loss"}, "1579c9eb2a2e9200"),
    "loss, token": (
        {"kl_placement": "loss", "ratio": "token", "kl_estimator": "k2"},
        "cda972624d0d4bbd",
    ),
}


@pytest.mark.parametrize("kind", GRPO)
def test_grpo_is_the_same_bytes_everywhere(library, half_trained, kind):
    changes, expected = GRPO[kind]
    start = CompiledPolicy(FULL_SIZE, half_trained.values, library)
    job = grpo_job(iterations=3, **changes)
    split = split_prompts(SplitSettings(validation=1000, held_out=1000))
    assert digest(*grpo.train(job, start, split, EXACT, beta=0.04, seed=1)) == expected


def test_what_is_learned_from_pairs_is_the_same_bytes_everywhere(library, half_trained):
    """The pairs, a reward model of them, GRPO on its score, and DPO."""
    start = Start(CompiledPolicy(FULL_SIZE, half_trained.values, library), split_prompts(None), {})
    settings = PreferencesSettings(habitual_truth=0.3, fresh_pairs=1)
    rows = draw_pairs(start, settings, "habitual", 96, 1, "preference")
    assert hashlib.sha256(repr(rows).encode()).hexdigest()[:16] == "3d08aa75dff515a5"
    pairs = pairs_in(rows)
    job = reward_model_job(steps=12)
    model, steps = reward_model.train(job, start.policy, pairs, pairs, seed=1)
    assert digest(model.transformer, [*steps, model.head.tolist()]) == "7e9a5f1a0f2ab61f"

    def score(additions, completions, generator):
        return model.score(additions.prompts(), completions)

    everything = split_prompts(SplitSettings(validation=1000, held_out=1000))
    trained = grpo.train(grpo_job(iterations=3), start.policy, everything, score, 0.3, seed=1)
    assert digest(*trained) == "3db24c4510edc307"
    dpo_run = dpo.train(dpo_job(), start.policy, everything, pairs, pairs, 0.5, seed=1)
    assert digest(*dpo_run) == "f60de6771ba9c058"


def test_an_exam_is_the_same_bytes_everywhere(library, half_trained):
    policy = CompiledPolicy(FULL_SIZE, half_trained.values, library)
    grades = grade(policy, prepare_exam(np.arange(0, 10_000, 7)), temperature=0.7)
    bits = b"".join(array.tobytes() for array in grades)
    assert hashlib.sha256(bits).hexdigest()[:16] == "378fb728c56b75fd"


# --- How it is built ------------------------------------------------------------------------------


def test_many_jobs_at_once_compile_once(tmp_path):
    """Each process asks for the library of a shape that nobody has compiled yet."""
    log, compiler = tmp_path / "log", tmp_path / "compiler"
    compiler.write_text(
        f'#!/bin/sh\necho once >> {log}\nexec {sys.executable} -m ziglang cc "$@"\n'
    )
    compiler.chmod(0o755)
    program = f"""
from pathlib import Path
from rlvr.config.settings.policy import PolicySettings
from rlvr.policy.engines.compiled import build
import numpy as np
build.ZIG, build.folders = ("{compiler}",), lambda: [Path("{tmp_path}/cache")]
settings = PolicySettings(width=8, heads=1, feed_forward=8, layers=1)
print(build.library(settings, np.dtype("float32")))
"""
    jobs = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    said = {job.communicate()[0] for job in jobs}
    assert len(said) == 1
    assert Path(said.pop().strip()).stat().st_size > 10_000
    assert log.read_text() == "once\n"
    assert not list((tmp_path / "cache").glob(".*.partial"))


@pytest.fixture
def fresh(monkeypatch):
    """A process that has asked for no library yet."""
    monkeypatch.setattr(build, "library", build.library.__wrapped__)


def no_folder(path):
    path.write_text("")  # a file: nothing can be put below it, by whatever user
    return path / "cache"


def test_where_nothing_is_writable_it_says_what_to_do(fresh, monkeypatch, tmp_path):
    places = [no_folder(tmp_path / name) for name in ("environment", "home")]
    monkeypatch.setattr(build, "folders", lambda: places)
    with pytest.raises(UserError, match="nowhere to put it") as raised:
        build.library(SMALL, np.dtype("float32"))
    for words in (*map(str, places), "XDG_CACHE_HOME", "engine: torch"):
        assert words in str(raised.value)


def test_the_cache_of_the_user_where_the_environment_is_not_writable(fresh, monkeypatch, tmp_path):
    places = [no_folder(tmp_path / "environment"), tmp_path / "home"]
    monkeypatch.setattr(build, "folders", lambda: places)
    shape = PolicySettings(width=8, heads=1, feed_forward=8, layers=1)
    path = build.library(shape, np.dtype("float32"))
    assert path.parent == places[1]
    made = path.stat().st_mtime_ns
    assert build.library(shape, np.dtype("float32")) == path
    assert path.stat().st_mtime_ns == made  # found, not made again
    other = shape.model_copy(update={"feed_forward": 16})
    assert build.library(other, np.dtype("float32")) != path


def test_a_compiler_that_fails_is_quoted(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "ZIG", (sys.executable, "-c", "raise SystemExit('no such target')"))
    monkeypatch.setattr(build, "folders", lambda: [tmp_path])
    with pytest.raises(
        UserError, match=r"(?s)could not be compiled, by .*no such target\nengine: torch"
    ):
        build.library(SMALL, np.dtype("float32"))
    assert not list(tmp_path.glob("*.so"))


def test_an_old_processor_is_told_so(monkeypatch):
    monkeypatch.setattr(compiled, "_library", compiled._library.__wrapped__)
    monkeypatch.setattr(compiled, "Library", lambda path: SimpleNamespace(runs_here=lambda: 0))
    with pytest.raises(UserError, match=r"needs a processor with AVX2 and FMA.*engine: torch"):
        small_policy()


def test_one_build_for_all_processors_of_a_kind(monkeypatch):
    for machine, target in {"AMD64": "-march=x86_64_v3", "arm64": "-mcpu=baseline"}.items():
        monkeypatch.setattr(build.platform, "machine", lambda machine=machine: machine)
        assert build.target() == target


# --- What is refused ------------------------------------------------------------------------------

PROMPTS = np.full((4, 7), 3)
SOLUTIONS = np.full((4, 3), 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.log_probs(PROMPTS[:3], SOLUTIONS),
        lambda p: p.log_probs(PROMPTS, SOLUTIONS[:, :2]),
        lambda p: p.log_probs(PROMPTS[0], SOLUTIONS),
        lambda p: p.log_probs(PROMPTS, SOLUTIONS.astype(np.int32)),
        lambda p: p.log_probs(PROMPTS.astype(float), SOLUTIONS),
        lambda p: p.log_probs(PROMPTS + 11, SOLUTIONS),
        lambda p: p.log_probs(PROMPTS - 4, SOLUTIONS),
        lambda p: p.log_probs(PROMPTS, SOLUTIONS + 10),
        lambda p: p.log_probs(PROMPTS, SOLUTIONS - 4),
        lambda p: p.hidden_states(np.zeros((4, 11), dtype=int), 6),
        lambda p: p.hidden_states(PROMPTS, 7),
        lambda p: p.hidden_states(PROMPTS, -1),
        lambda p: p.hidden_states(PROMPTS + 11, 6),
        lambda p: (p.log_probs(PROMPTS, SOLUTIONS), p.backward(np.zeros((4, 2)))),
        lambda p: (p.log_probs(PROMPTS, SOLUTIONS), p.backward(np.zeros((3, 3)))),
        lambda p: (p.hidden_states(PROMPTS, 6), p.backward(np.zeros((4, 1)))),
        lambda p: p.backward(np.zeros((4, 3))),
        lambda p: (
            p.log_probs(PROMPTS, SOLUTIONS),
            p.rollout(PROMPTS, np.zeros((3, 4))),
            p.backward(np.zeros((4, 3))),
        ),
        lambda p: p.rollout(PROMPTS[:, :6], np.zeros((3, 4))),
        lambda p: p.rollout(PROMPTS, np.zeros((4, 3))),
        lambda p: p.rollout(PROMPTS + 11, np.zeros((3, 4))),
        lambda p: p.grade(PROMPTS, SOLUTIONS[:3]),
        lambda p: p.grade(PROMPTS, SOLUTIONS + 10),
        lambda p: p.grade(PROMPTS[:, 1:], SOLUTIONS),
        lambda p: CompiledPolicy(SMALL, p.values[:-1]),
        lambda p: CompiledPolicy(SMALL, np.zeros((2, len(p.values)))[:, ::2]),
        lambda p: CompiledPolicy(SMALL, p.values, _library_of(FULL_SIZE)),
    ],
)
def test_bad_sizes_and_tokens_are_refused_before_any_call(call):
    with pytest.raises(ValueError, match=r"tokens|must be|weights|dimension|positions|solutions"):
        call(small_policy())


@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS + 11])
def test_there_is_no_way_back_from_what_was_refused(prompts):
    """Else it would read with the refused tokens."""
    policy = small_policy()
    policy.log_probs(PROMPTS, SOLUTIONS)
    with pytest.raises(ValueError, match="tokens"):
        policy.log_probs(prompts, SOLUTIONS + 10)
    with pytest.raises(ValueError, match="slopes must be of shape"):
        policy.backward(np.ones((4, 3)))


def _library_of(settings):
    return Library(str(build.library(settings, np.dtype("float64"))))


def test_shapes_that_are_no_whole_vectors_are_refused():
    odd = PolicySettings(width=12, heads=2, feed_forward=16, layers=1)
    assert not odd.whole_vectors()
    with pytest.raises(UserError, match=r"multiples of 8.*engine: torch takes any"):
        compiled.policy(odd, initial_values(odd, seed=0), "cpu")


def test_no_environment_variable_reaches_the_compiler_s_choice(monkeypatch):
    """The library is found by what it is made from, whatever CC or CFLAGS say."""
    before = build.library.__wrapped__(SMALL, np.dtype("float32"))
    monkeypatch.setitem(os.environ, "CFLAGS", "-ffast-math")
    assert build.library.__wrapped__(SMALL, np.dtype("float32")) == before
