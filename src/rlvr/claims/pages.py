"""The ledger of claims for people: as Markdown and as a page of HTML.

Both have tables of the documents' claims, then the rules that made the verdicts.
"""

from collections.abc import Sequence
from html import escape
from math import isinf, isnan
from typing import Any, NamedTuple

COLUMNS = ("claim", "document", "ours, by seed", "mean", "theory", "verdict")
METHODS = (
    "Intervals are Student's t of the seeds' mean; log t and logit t are that on a scale on which "
    "a positive quantity, or a fraction, has no end, so that they stay within what a mean can be. "
    "A zero width means that all seeds agree, not that the next one must."
)
RULES = (
    "Fixed before this workflow's first results on them were seen (document B's but for "
    "one run of its figure 4, and trial runs elsewhere; document A's contrasts but for a run of "
    "one seed each, and trial runs elsewhere). A seed holds if it lies within"
)


def number(value: float, unit: str) -> str:
    """A number as the ledger writes it."""
    if isnan(value):
        return "–"
    if isinf(value):
        never = "never" if unit == "iterations" else "∞"
        return never if value > 0 else "−∞"
    if unit == "parameters":
        return f"{value:,.0f}"
    if unit in ("minutes", "iterations"):
        return f"{value:.3g}"
    return f"{value:.3f}".replace("-", "−")


def _exact(value: float, unit: str) -> str:
    """A number that was not measured, in as many digits as it has, up to five decimals."""
    if unit != "fraction" or isnan(value) or isinf(value):
        return number(value, unit)
    return f"{value:.5f}".rstrip("0").rstrip(".")


def _cells(row: dict[str, Any], confidence: float, common_seeds: list[int]) -> list[str]:
    """A row of the table; after its verdict, as a cell of its own, what is said beside that."""
    unit = row["unit"]
    document, ours = ([number(value, unit) for value in row[key]] for key in ("document", "ours"))
    if row["seeds"] != common_seeds:
        ours = [f"{seed}: {value}" for seed, value in zip(row["seeds"], ours, strict=False)] or ours
    mean = number(row["mean"], unit) if row["seeds"] else ""
    if not isnan(row["interval_low"]):
        low, high = (number(row[key], unit) for key in ("interval_low", "interval_high"))
        mean += f" [{low}, {high}]"
    beside = ""
    if not isnan(row["failure_rate_bound"]):
        beside = (
            f"; rate of failing ≤ {row['failure_rate_bound']:.2f} ({100 * confidence:g}% bound)"
        )
    return [
        f"{row['statement']}; {unit}",
        " / ".join(document) or "in words",
        " / ".join(ours) or "–",
        mean,
        _exact(row["theory"], unit),
        row["verdict"],
        beside,
    ]


def _limits(row: dict[str, Any]) -> str:
    low, high = (_exact(row[key], row["unit"]) for key in ("low", "high"))
    return f"{low} to {high} {row['unit']}. Why: {row['reason']}."


class _Section(NamedTuple):
    """The table of one document's claims."""

    title: str
    note: str
    rows: list[list[str]]


def _sections(rows: Sequence[dict[str, Any]], confidence: float) -> list[_Section]:
    sections = []
    for source in dict.fromkeys(row["source"] for row in rows):
        ours = [row for row in rows if row["source"] == source]
        # Most rows have the same seeds: said once, above the table.
        lists = [row["seeds"] for row in ours if row["seeds"]]
        seeds = max(lists, key=lists.count, default=[])
        methods = sorted({row["interval_method"] for row in ours} - {"none"}, key=len)
        title = f"{'Document ' if len(source) == 1 else ''}{source}"
        note = (
            f"Ours: seeds {', '.join(map(str, seeds))} in this order, where no others are named. "
            f"Intervals: {100 * confidence:g}% over seeds "
            f"({', '.join(methods) or 'one seed: none'})."
        )
        cells = [_cells(row, confidence, seeds) for row in ours]
        sections.append(_Section(title, note, cells))
    return sections


def _counts(rows: Sequence[dict[str, Any]]) -> str:
    verdicts = [row["verdict"] for row in rows]
    counts = {
        "hold": verdicts.count("holds"),
        "hold on some seeds": sum(v.startswith("holds on") for v in verdicts),
        "fail": verdicts.count("fails"),
        "not measured": verdicts.count("not measured"),
    }
    return f"{len(rows)} claims: " + ", ".join(f"{n} {name}" for name, n in counts.items()) + "."


def as_markdown(rows: Sequence[dict[str, Any]], confidence: float) -> str:
    """The ledger as Markdown: tables, then the rules that made the verdicts."""
    lines = ["# Claims", "", _counts(rows), ""]
    for section in _sections(rows, confidence):
        lines += [f"### {section.title}", "", section.note, ""]
        lines += [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        for *cells, judged, beside in section.rows:
            lines.append(f"| {' | '.join([*cells, f'**{judged}**{beside}'])} |")
        lines.append("")
    lines += [METHODS, "", "## When a claim holds", "", RULES, ""]
    lines += [f"- `{row['claim']}`: {_limits(row)}" for row in rows]
    return "\n".join([*lines, ""])


STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1a1a1a; background: white;
  max-width: 80rem; margin: 0 auto; padding: 0.5rem 1.5rem 3rem; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.6rem; }
th { position: sticky; top: 0; background: #f0f1f3; }
th:first-child { width: 32%; }
td { border-bottom: 1px solid #ddd; }
[data-verdict="holds"] { color: #17672f; }
[data-verdict^="holds on"] { color: #8a5a00; }
[data-verdict="fails"] { color: #b3261e; }
"""


def as_html(rows: Sequence[dict[str, Any]], confidence: float) -> str:
    """The same as a page that needs no other file: for a browser, and for Snakemake's report."""
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Claims</title>',
        f"<style>{STYLE}</style></head><body><h1>Claims</h1><p>{escape(_counts(rows))}</p>",
    ]
    for section in _sections(rows, confidence):
        lines.append(f"<h2>{escape(section.title)}</h2><p>{escape(section.note)}</p><table>")
        lines.append(f"<tr>{''.join(f'<th>{name}</th>' for name in COLUMNS)}</tr>")
        for *cells, judged, beside in section.rows:
            bold = f'<strong data-verdict="{escape(judged)}">{escape(judged)}</strong>'
            cells = [*map(escape, cells), bold + escape(beside)]
            lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        lines.append("</table>")
    lines.append(f"<p>{escape(METHODS)}</p><h2>When a claim holds</h2><p>{escape(RULES)}</p><ul>")
    lines += [f"<li><code>{row['claim']}</code>: {escape(_limits(row))}</li>" for row in rows]
    return "\n".join([*lines, "</ul></body></html>", ""])
