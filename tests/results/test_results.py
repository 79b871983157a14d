"""What `make figures` left behind. Not part of `make test`: it needs the real run."""

import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from helpers import ROOT
from pypdf import PdfReader

from rlvr.claims.ledger import ALL_CLAIMS
from rlvr.config.settings.names import FIGURES

RESULTS = ROOT / "results"


@pytest.mark.parametrize("figure", FIGURES)
def test_figure_is_a_pdf_of_one_page(figure):
    path = RESULTS / f"{figure}.pdf"
    assert path.read_bytes().startswith(b"%PDF-")
    (page,) = PdfReader(path, strict=True).pages
    assert any(word in page.extract_text() for word in ("iteration", "step", "nats"))


EXTENDED = {"no_collapse_long"}
"""Claims on runs that `make extended` has."""


def test_claims_have_every_row_and_each_was_measured():
    text = (RESULTS / "claims.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [line for line in lines if not line.startswith("| claim ")]  # a heading per document
    for claim, row in zip(ALL_CLAIMS, rows, strict=True):
        assert claim.statement in row
        assert ("not measured" in row) is (claim.key in EXTENDED)
    table = pq.read_table(RESULTS / "claims.parquet")
    assert table["claim"].to_pylist() == [claim.key for claim in ALL_CLAIMS]


def test_policy_has_the_size_that_the_readme_states():
    table = pq.read_table(RESULTS / "claims.parquet").to_pandas().set_index("claim")
    assert table.ours["parameters"].tolist() == [69_325]


def test_a_figure_by_name_has_nothing_to_do():
    command = [sys.executable, "-m", "snakemake", "--cores", "4", f"results/{FIGURES[1]}.pdf"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr
