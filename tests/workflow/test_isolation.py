"""Nothing of the user's environment reaches a result: variables, files, fonts, paths."""

import os
import shlex
import subprocess
import sys
from collections.abc import Set
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import pytest
from helpers import ROOT
from matplotlib import font_manager
from tiny_workflow import Workflow, copy_of_project

from rlvr.figures import style

FIGURE = "results/fig1_rlvr_overturns.pdf"
CLAIMS = "results/claims.parquet"
ONE_STUDY = {"claims": {"studies": ["weak_start"]}}
MATPLOTLIBRC = (
    "font.family: monospace\nlines.linewidth: 9\naxes.facecolor: yellow\nsavefig.dpi: 30\n"
)

VARIABLES = {
    # What a notebook, a shell's start-up file or a cluster sets, and what libraries then do.
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3",
    "OMP_NUM_THREADS": "3",
    "MKL_NUM_THREADS": "3",
    "SOURCE_DATE_EPOCH": "1",
    "LC_ALL": "de_DE.ISO-8859-1",
    "LANG": "tr_TR",
    "TQDM_DISABLE": "1",
    "PYTHONHASHSEED": "1",
    "PYTHONOPTIMIZE": "2",
    "PYTHONWARNINGS": "error",
    "PYTHONIOENCODING": "ascii:strict",
}


def with_user_files(folder: Path, without: Set[str] = frozenset()) -> Path:
    """A folder with a matplotlibrc, and with a file in place of each module of Python's own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in filter(find_spec, sys.stdlib_module_names - without):
        (folder / f"{name}.py").write_text(f"raise SystemExit('the user\\'s {name}.py was read')\n")
    (folder / "matplotlibrc").write_text(MATPLOTLIBRC)
    return folder


def hidden_too_early() -> set[str]:
    """What Python needs to find the stage: where one is hidden, it ends at once, with its name."""
    command = [sys.executable, "-c", "import runpy, sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def same_as(finished: Workflow, workflow: Workflow) -> None:
    """All that was made is what the finished run has, byte for byte."""
    made = workflow.products()
    assert FIGURE in made
    made.pop(CLAIMS, None)  # of one study
    assert made.items() <= finished.products().items()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with settings of the user's for Matplotlib."""
    for folder in (".config/matplotlib", ".matplotlib"):
        (tmp_path / "home" / folder).mkdir(parents=True)
        (tmp_path / "home" / folder / "matplotlibrc").write_text(MATPLOTLIBRC)
    return tmp_path / "home"


def test_variables_and_files_of_the_user_change_no_byte(finished, home, tmp_path):
    """As Snakemake runs the jobs; with warnings as errors it would end itself."""
    workflow = Workflow(with_user_files(tmp_path / "work"))
    user = VARIABLES | {"HOME": str(home), "MATPLOTLIBRC": str(home)}
    del user["PYTHONWARNINGS"]
    done = subprocess.run(
        workflow.command(targets=[FIGURE, CLAIMS], overlay=ONE_STUDY),
        cwd=ROOT, env=workflow.environment | user, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    same_as(finished, workflow)


STAGES = ["rlvr.methods.sft", "rlvr.methods.grpo", "rlvr.results.table", "rlvr.figures"]


def test_by_hand_too(finished, home, tmp_path):
    """Each stage's command as Snakemake prints it, in a shell and a folder that have all of it."""
    files = with_user_files(tmp_path / "files", hidden_too_early())
    workflow = Workflow(files)
    user = VARIABLES | {"HOME": str(home), "MATPLOTLIBRC": str(home)}
    user |= {"PYTHONPATH": f"{files}:{workflow.environment['PYTHONPATH']}"}
    del user["PYTHONWARNINGS"]  # by hand it is the user's, and some libraries do warn
    (files / "results").mkdir()
    commands = Workflow(tmp_path / "printed").printed_commands(FIGURE)
    assert len(commands) == 6
    commands.sort(key=lambda command: STAGES.index(next(s for s in STAGES if s in command[0])))
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=files, env=os.environ | user, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    same_as(finished, workflow)


def test_what_matplotlib_cannot_read_is_refused_before_any_job(tmp_path):
    workflow = Workflow(tmp_path / "work")
    workflow.folder.mkdir()
    (workflow.folder / "matplotlibrc").write_bytes(b"font.family: Gr\xf6\xdfe\n")
    done = workflow.snakemake("--quiet", targets=[FIGURE])
    assert done.returncode == 1
    assert "Matplotlib reads it and fails" in done.stderr
    assert not (workflow.folder / "results/sft").exists()


@pytest.mark.parametrize(("entry", "said"), [("", ""), ("src", "Write absolute paths.")])
def test_pythonpath_does_not_bring_the_working_folder_back(tmp_path, entry, said):
    """An empty entry, as a trailing colon leaves, is left out; a relative one is refused."""
    workflow = Workflow(tmp_path / "work")
    workflow.folder.mkdir()
    for name in ("torch", "cycler", "pyarrow"):
        (workflow.folder / f"{name}.py").write_text("raise SystemExit('of the working folder')")
    path = f"{workflow.environment['PYTHONPATH']}:{entry}"
    done = subprocess.run(
        workflow.command(targets=["results/sft/teacher=weak/seed=1/metrics.parquet"]),
        cwd=ROOT, env=workflow.environment | {"PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode == 0) is (not said), done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("start", [["-mrlvr.results.table"], ["-P", "-m", "rlvr.results.table"]])
def test_however_a_stage_is_started(tmp_path, start):
    """The working folder is not looked into."""
    for name in ("pyarrow", "pydantic"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the working folder')")
    command = [sys.executable, *start, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--runs-in" in done.stdout
    assert "not started as" not in done.stderr


def test_a_start_that_is_not_isolated_says_so(tmp_path):
    """As a profiler's, which imports libraries before us."""
    start = [
        "-c",
        "from rlvr.jobs import command_line; from rlvr.results import table; "
        "command_line.run(table.TableStage)",
    ]
    command = [sys.executable, *start, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "not started as python -m rlvr.ROOM.STAGE" in done.stderr


def test_fonts_are_those_that_come_with_matplotlib(monkeypatch):
    """Though a font of the same name is installed: here it is another, by the name of ours."""
    (other,) = Path(mpl.get_data_path()).glob("fonts/ttf/DejaVuSansMono.ttf")
    installed = font_manager.FontEntry(fname=str(other), name="STIXGeneral")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [installed])
    with mpl.rc_context({"lines.linewidth": 9}):
        style.use()
        assert font_manager.findfont("STIXGeneral").endswith("fonts/ttf/STIXGeneral.ttf")
        assert mpl.rcParams["lines.linewidth"] == mpl.rcParamsDefault["lines.linewidth"]


def test_a_path_that_shells_and_formats_would_take_for_theirs(finished, tmp_path):
    """Of the project, of the results, and of the Python that runs it all."""
    folder = copy_of_project(
        tmp_path / "mit Leerzeichen & größer 加法" / 'it\'s {seed}, $HOME, "x"'
    )
    (folder / "{beta}").symlink_to(sys.prefix)
    workflow = Workflow(folder, project=folder, configs=[])
    command = workflow.command(targets=[FIGURE, "results/config.yaml"])
    done = subprocess.run(
        [folder / "{beta}/bin/python", *command[1:]],
        env=workflow.environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "results/requirements.lock").read_bytes() == (
        ROOT / "requirements.lock"
    ).read_bytes()
    for name in ("results/config.yaml", "results/requirements.lock"):
        (folder / name).unlink()
    same_as(finished, workflow)


LONG = "_".join(f"n{n**3}" for n in range(30))[:100]  # Snakemake refuses what repeats itself


def test_the_longest_names_have_room(tmp_path):
    workflow = Workflow(tmp_path / "work")
    overlay = {
        "teachers": {LONG: {"truth_probability": 0.5}},
        "recipes": {LONG: {"iterations": 2}},
        "studies": {LONG: {"recipes": [LONG], "teachers": [LONG], "betas": [1e-9], "seeds": [1]}},
    }
    target = f"results/tables/{LONG}.parquet"
    for _ in range(2):
        done = workflow.snakemake(targets=[target], overlay=overlay)
        assert done.returncode == 0, shlex.join(map(str, done.args)) + done.stderr
    assert "Nothing to be done" in done.stderr
    assert (workflow.folder / target).exists()
