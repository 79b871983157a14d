"""Snakemake runs of the tiny config: in a folder, from this project or from a copy of it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from helpers import ROOT, tiny_yaml

PARTS = ["Snakefile", "config.yaml", "profiles", "requirements.lock", "src", "workflow"]
"""What of the project a copy needs to run."""


class Workflow:
    """A folder in which Snakemake runs the tiny config: this project, or a copy of it."""

    def __init__(
        self, folder: Path, project: Path = ROOT, configs: Sequence[Path] | None = None
    ) -> None:
        """`configs` go over the project's config.yaml; left out, the tiny one takes its place."""
        self.folder = folder
        self.project = project
        self.configs = configs

    def command(
        self, *options: str, targets: Sequence[str] = (), overlay: dict | str | None = None
    ) -> list[str | Path]:
        """The command line; `overlay` is one more config file, as data or as raw text."""
        self.folder.mkdir(parents=True, exist_ok=True)
        configs = self.configs
        if configs is None:
            configs = [self.folder / f"tiny-{os.getpid()}.yaml"]
            configs[0].write_text(yaml.safe_dump(tiny_yaml()), encoding="utf-8")
        if overlay is not None:
            text = overlay if isinstance(overlay, str) else yaml.safe_dump(overlay)
            configs = [*configs, self.folder / f"overlay-{os.getpid()}.yaml"]
            configs[-1].write_text(text, encoding="utf-8")
        return [
            *(sys.executable, "-m", "snakemake", "--snakefile", self.project / "Snakefile"),
            *("--directory", self.folder, "--cores", "2"),
            *(["--replace-workflow-config"] if self.configs is None else []),
            *(["--configfile", *configs] if configs else []),
            *(*options, "--", *targets),
        ]

    @property
    def environment(self) -> dict[str, str]:
        """With the package of this project, also where another is installed."""
        return os.environ | {"PYTHONPATH": str(self.project / "src")}

    def snakemake(self, *options: str, **more: Any) -> subprocess.CompletedProcess:
        """Run it; the arguments are those of `command`."""
        return subprocess.run(
            self.command(*options, **more), capture_output=True, text=True, env=self.environment
        )

    def would_run(self, *options: str, targets: Sequence[str] = ()) -> set[str]:
        """The jobs that a dry run would start, by rule and wildcards, but for `all`."""
        done = self.snakemake("--dry-run", *options, targets=targets)
        assert done.returncode == 0, done.stdout + done.stderr
        blocks = re.findall(r"^rule (\w+):\n((?:    .*\n)+)", done.stdout, flags=re.MULTILINE)
        assert bool(blocks) is ("Nothing to be done" not in done.stdout), done.stdout
        started = set()
        for rule, block in blocks:
            wildcards = re.search(r"^    wildcards: (.*)$", block, flags=re.MULTILINE)
            values = [part.split("=")[1] for part in wildcards[1].split(", ")] if wildcards else []
            started.add(" ".join([rule, *filter(None, ["/".join(values)])]))
        return started - {"all"}

    def printed_commands(self, *targets: str) -> list[list[str]]:
        """The stages' arguments of all jobs behind targets, from the commands of a dry run."""
        done = self.snakemake("--dry-run", "--forceall", "--printshellcmds", targets=targets)
        lines = (
            line.partition("Shell command: python -m ")[2] for line in done.stdout.splitlines()
        )
        return [shlex.split(line.split(" > ")[0]) for line in lines if line]

    def stage(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run a stage by hand."""
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def contents(self) -> dict[str, bytes]:
        """Every file below results, and its bytes."""
        files = (path for path in (self.folder / "results").rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in sorted(files)}

    def products(self) -> dict[str, bytes]:
        """Those that are the same in each run: no log, no time."""
        return {
            name: data
            for name, data in self.contents().items()
            if not name.startswith(("results/logs/", "results/benchmarks/"))
            and name not in ("results/claims.md", "results/claims.html")
        }


def importing_workflow(folder: Path, config: dict, *targets: str) -> Workflow:
    """Another workflow that takes this one in, with a prefix and a config of its own."""
    (folder / "config.yaml").write_text(yaml.safe_dump({"rlvr": config}))
    (folder / "Snakefile").write_text(
        f"""
configfile: "config.yaml"

module rlvr:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: config["rlvr"]
    prefix: "teaching"

use rule * from rlvr as rlvr_*

rule course:
    default_target: True
    input: {", ".join(f'"teaching/{target}"' for target in targets)}
"""
    )
    return Workflow(folder, project=folder, configs=[])


def copy_of_project(folder: Path) -> Path:
    """A copy of the project as a clone would be, its config.yaml made tiny."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, folder / name)
    (folder / "config.yaml").write_text(yaml.safe_dump(tiny_yaml()))
    return folder
