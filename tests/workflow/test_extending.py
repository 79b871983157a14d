"""docs/extending.md: each section done in a copy of the project, as it stands there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from helpers import ROOT, merge
from pypdf import PdfReader
from reruns import ALL, FROM_RUNS, jobs
from tiny_workflow import Workflow

PAGE = (ROOT / "docs/extending.md").read_text("utf-8")
SECTIONS = {
    title: text
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Extended:
    """A copy of the project that follows a section of the page."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self.folder = workflow.folder
        self.overlays: list[Path] = []
        self.files: set[str] = set()
        self.target = ""

    def follow(self, title: str) -> "Extended":
        """Do what each code block of a section is for, by the words before it."""
        file, parts = "", FENCE.split(SECTIONS[title])
        for words, language, code in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
            words = words.replace("\n", " ")
            if language == "sh":
                (self.target,) = re.findall(r"results/\S+", code)
                continue
            if named := re.findall(r"`((?:src|workflow|config)[\w./]*|mine\.yaml)`", words):
                file = named[-1]
            path = self.folder / file
            if file == "mine.yaml":
                path.write_text(code, encoding="utf-8")
                self.overlays = [path]
                continue
            self.files.add(file)
            if file == "config.yaml":
                config = merge(yaml.safe_load(path.read_text("utf-8")), yaml.safe_load(code))
                path.write_text(yaml.safe_dump(config))
                continue
            if words.rstrip().endswith(f"Save this as `{file}`:"):
                assert not path.exists()
                path.write_text(code, encoding="utf-8")
                continue
            text = path.read_text("utf-8")
            ((where, line),) = re.findall(
                r"(above|below|in place of|at its end)\s*(?:`([^`]+)`)?:\s*$", words
            )
            old = line if where == "in place of" else f"{line}\n"
            new = {
                "above": f"{code}{old}",
                "below": f"{old}{code}",
                "in place of": code.removesuffix("\n"),
                "at its end": "",
            }[where]
            if where == "at its end":
                text += code
            else:
                assert text.count(old) == 1, (file, old)
                text = text.replace(old, new)
            path.write_text(text, encoding="utf-8")
        return self

    def snakemake(self, *options: str, everything: bool = False) -> subprocess.CompletedProcess:
        """Ask for the section's target, or for all that the config names."""
        configs = ["--configfile", *self.overlays] if self.overlays else []
        targets = [] if everything else [self.target]
        return self.workflow.snakemake(*options, *configs, targets=targets)

    def would_run(self, everything: bool = False) -> set[str]:
        """The jobs that a dry run would start for the target, or for everything."""
        targets = [] if everything else [self.target]
        configs = ["--configfile", *map(str, self.overlays)] if self.overlays else []
        return self.workflow.would_run(*configs, targets=targets)

    def made(self) -> Path:
        """The target, having been made."""
        done = self.snakemake()
        assert done.returncode == 0, done.stdout + done.stderr
        return self.folder / self.target

    def python(self, code: str) -> str:
        """What a program prints that imports the copy."""
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, env=self.workflow.environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()


@pytest.fixture
def extended(clone: Workflow) -> Extended:
    """The project as it is, with finished results."""
    return Extended(clone)


NEW_RUN = ("grpo parity/weak/0/1", "grpo parity/weak/0/2", "table parity")


def test_a_reward(extended):
    extended.follow("A reward")
    assert extended.files == {"src/rlvr/task/rewards/parity.py"}
    assert extended.would_run(everything=True) == set()
    assert extended.would_run() == set(NEW_RUN)
    table = pq.read_table(extended.made()).to_pandas().set_index("iteration")
    assert table.reward_mean.mean() > table.success_fraction.mean()  # more than is right
    asked = "Additions(np.array([47]), np.array([85]))"
    code = f"""
import numpy as np
from rlvr.task.addition import Additions
from rlvr.task.rewards import rule
completions = np.array([[1, 3, 2], [0, 0, 8], [1, 3, 3]])
print(rule("parity")({asked}.repeated(3), completions, None).tolist())"""
    assert extended.python(code) == "[1.0, 1.0, 0.0]"

    # Its runs alone depend on it, and where it fails its author's line is shown.
    path = extended.folder / "src/rlvr/task/rewards/parity.py"
    path.write_text(path.read_text().replace("completions[:, 2] %", "completions[:, 7] %"))
    assert extended.would_run(everything=True) == set()
    assert extended.would_run() == set(NEW_RUN)
    done = extended.snakemake()
    assert done.returncode == 1
    summary = done.stderr.partition("error: ")[2]
    assert "return completions[:, 7] % 2 == additions.solutions()[:, 2] % 2" in summary
    assert "index 7 is out of bounds" in summary


def test_a_habit_of_a_teacher(extended):
    before = extended.workflow.products()
    extended.follow("A habit of a teacher")
    assert extended.files == {"src/rlvr/config/settings/teachers.py", "src/rlvr/task/teachers.py"}
    assert extended.would_run() == {
        *(
            f"{job}/{seed}"
            for job in ("sft shrugging", "grpo short/shrugging/0")
            for seed in (1, 2)
        ),
        "table shrugging",
    }
    assert extended.would_run(everything=True) == jobs(*ALL)
    extended.made()
    code = """
import numpy as np
from rlvr.config.settings.teachers import TeacherSettings
from rlvr.task.addition import all_additions
from rlvr.task.streams import stream
from rlvr.task.teachers import demonstrations
teacher = TeacherSettings(truth_probability=0.3, shrug_probability=0.02)
shown = demonstrations(teacher, all_additions(), stream(0, "sft_batch"))
print((shown == 10).all(axis=1).sum())"""
    assert 140 < int(extended.python(code)) < 260
    # A teacher that never shrugs teaches what it taught.
    weak = "results/sft/teacher=weak/seed=1/metrics.parquet"
    extended.target = weak
    made = pq.read_table(extended.made(), partitioning=None).to_pylist()
    (extended.folder / "before.parquet").write_bytes(before[weak])
    assert made == pq.read_table(extended.folder / "before.parquet").to_pylist()


def test_a_column(extended):
    extended.follow("A column")
    assert extended.files == {"src/rlvr/methods/columns.py", "src/rlvr/methods/grpo.py"}
    assert extended.would_run(everything=True) == jobs(*FROM_RUNS)
    table = pq.read_table(extended.made())
    field = table.schema.field("unparsable_fraction")
    assert field.metadata[b"unit"] == b"fraction"
    values = table["unparsable_fraction"].to_pylist()
    assert values[0] is None
    assert all(0 <= value <= 1 for value in values if value is not None)
    assert max(filter(None, values)) > 0  # a policy of 30 steps does say such things


def test_a_method(extended):
    extended.follow("A method")
    assert extended.files == {
        "src/rlvr/config/methods/rejection.py",
        "src/rlvr/methods/rejection.py",
        "workflow/rules/rejection.smk",
        "config.yaml",
    }
    assert extended.would_run(everything=True) == set()
    assert extended.would_run() == {
        *(f"grpo short/weak/0/{seed}" for seed in (1, 2)),
        *(f"rejection rejection_100/weak/0/{seed}" for seed in (1, 2)),
        "table two_methods",
    }
    table = pq.read_table(extended.made())
    frame = table.to_pandas()
    assert frame.groupby("method").size().to_dict() == {"grpo": 2 * 5, "rejection": 2 * 101}
    provenances = json.loads(table.schema.metadata[b"provenance"])["provenances"]
    assert {one["method"] for one in provenances} == {"grpo", "rejection"}
    # Iteration 0 is the same SFT policy, and what is learned is learned from what is right.
    start = frame[frame.iteration == 0].pivot(index="seed", columns="method", values="accuracy")
    assert (start.grpo == start.rejection).all()
    seeds = frame[(frame.method == "rejection") & frame.success_probability.notna()]
    for _, rows in seeds.groupby("seed"):
        assert rows.success_probability.iloc[-1] > rows.success_probability.iloc[0]
    # A slip of the pen in its settings is found before any job.
    overlay = extended.overlays[0]
    overlay.write_text(overlay.read_text().replace("iterations: 100", "iteration: 100"))
    done = extended.snakemake("--dry-run")
    said = "recipes.rejection_100.iteration: unknown key. Did you mean iterations?"
    assert said in done.stdout + done.stderr


def test_a_figure(extended):
    extended.follow("A figure")
    assert extended.files == {"src/rlvr/figures/fig9_entropy.py"}
    overlay = extended.overlays[0]
    overlay.write_text(overlay.read_text().replace("300", "4"))
    assert extended.would_run() == {"figure fig9_entropy"}
    (page,) = PdfReader(extended.made()).pages
    text = page.extract_text()
    assert all(words in text for words in ("entropy", "beta 0.04", "beta 0", "GRPO iteration"))
    # Without the arms that it shows, it is refused before anything is trained.
    overlay.write_text(overlay.read_text().replace("partial_start", "weak_start"))
    done = extended.snakemake("--dry-run")
    lack = "figures.fig9_entropy.studies: none of weak_start has recipe document_b"
    assert lack in done.stdout + done.stderr


def test_another_task(extended):
    extended.follow("Another task")
    assert extended.files == {"src/rlvr/task/addition.py"}
    assert extended.would_run(everything=True) == jobs(*ALL)
    code = """
import numpy as np
from rlvr.task.addition import Additions, all_additions
asked = Additions(np.array([47, 40, 3]), np.array([38, 20, 5]))
print(asked.solutions().tolist(), asked.no_carry_completions().tolist())
print(all_additions().carry().mean())"""
    solutions = [[0, 0, 9], [0, 2, 0], [9, 9, 8]]
    no_borrow = [[0, 1, 9], [0, 2, 0], [0, 0, 8]]
    assert extended.python(code) == f"{solutions} {no_borrow}\n0.6975"
    assert extended.made().read_bytes().startswith(b"%PDF-")
    assert extended.would_run(everything=True) >= jobs("grpo short/cold/*")


@pytest.mark.parametrize("title", SECTIONS)
def test_every_section_is_tried(title):
    tried = [name for name in globals() if name.startswith("test_a")]
    assert f"test_{title.lower().replace(' ', '_')}" in tried
