"""Copy the finished results into docs/ and README.md: figures, claims and the rule graph.

make docs
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def replace_section(text: str, name: str, content: str) -> str:
    """The text with what stands between the markers of a section replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"README.md: expected the markers {begin} and {end} once each")
    pattern = re.escape(begin) + ".*" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{content}\n{end}", text, flags=re.DOTALL)


def output_of(*command: str) -> str:
    """What a command prints."""
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def main() -> None:
    """Update README.md and docs/figures from results/."""
    results = ROOT / "results"
    figures = sorted(results.glob("fig*.png"))
    claims = results / "claims.md"
    if not (figures and claims.exists()):
        sys.exit("results/ holds no finished figures and claims: run `make figures` first.")
    for figure in figures:
        shutil.copy(figure, ROOT / "docs" / "figures" / figure.name)
    ledger = claims.read_text(encoding="utf-8").split("## When a claim holds")[0]
    shutil.copy(claims, ROOT / "docs" / "claims.md")
    graph = output_of("snakemake", "--rulegraph", "mermaid-js")
    reruns = output_of(sys.executable, "tests/reruns.py")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    text = replace_section(text, "claims", ledger.split("\n", 2)[2].strip())
    text = replace_section(text, "speed", (ROOT / "benchmarks" / "report.md").read_text().strip())
    text = replace_section(text, "graph", f"```mermaid\n{graph}\n```")
    text = replace_section(text, "reruns", reruns)
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
