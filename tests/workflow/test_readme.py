"""What the README tells a newcomer to type works as it stands there."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT, TINY
from pypdf import PdfReader
from tiny_workflow import PARTS

README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, start: str) -> str:
    """The README's code block of a language that begins with these words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    (found,) = (text for text in blocks if text.startswith(start))
    return found


def test_a_teacher_a_recipe_and_a_study_are_an_overlay(finished):
    done = finished.snakemake(
        "--dry-run", "--quiet", "rules",
        targets=["results/tables/half_truth.parquet"],
        overlay=block("yaml", "teachers:"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(re.findall(r"^(\w+) +(\d+)$", done.stdout, flags=re.MULTILINE))
    assert counts == {"sft": "2", "grpo": "8", "table": "1", "total": "11"}


def test_a_figure_is_one_module_and_one_entry(finished, tmp_path):
    for name in PARTS:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    shutil.copytree(finished.folder / "results", tmp_path / "results")
    module = block("python", '"""Figure 9')
    (tmp_path / "src/rlvr/figures/fig9_entropy.py").write_text(module)
    config = tmp_path / "config.yaml"
    entry = block("yaml", "  fig9_entropy:")
    config.write_text(config.read_text().replace("figures:\n", f"figures:\n{entry}", 1))
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "results/fig9_entropy.pdf"]
    done = subprocess.run(
        [*command, "--configfile", TINY],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (page,) = PdfReader(tmp_path / "results/fig9_entropy.pdf").pages
    assert "entropy" in page.extract_text()


def test_every_path_and_target_that_it_names_exists():
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / path).exists(), path
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`make (\w+)`", README)):
        assert f"\n{target}:" in makefile, target


@pytest.mark.parametrize(
    ("target", "makes"),
    [
        ("figures", "results/fig5_kl_anchor.pdf"),
        ("extended", "recipe=loss_t10_lr3"),
        ("archive", "rlvr-results.tar.gz"),
    ],
)
def test_make_asks_snakemake_for_what_it_says(finished, target, makes):
    """By a dry run of the recipe's command: words after an option may be taken for its values."""
    recipe = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (command,) = (line for line in recipe.stdout.splitlines() if "&& snakemake" in line)
    arguments = shlex.split(command.partition("&& snakemake")[2])
    options = ["--dry-run", "--nolock", "--directory", finished.folder]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert makes in done.stdout
