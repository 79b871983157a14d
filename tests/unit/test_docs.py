"""The figures' pages and the how-to: the ledger fills their blanks, the config takes overlays."""

import dataclasses
import re
from math import inf, nan

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from helpers import ROOT, merge

from rlvr.claims.claim import CLAIMS, Claim, judge
from rlvr.claims.ledger import ALL_CLAIMS
from rlvr.config.settings.whole import load_config
from rlvr.errors import UserError

DOCS = ROOT / "docs"
TEMPLATES = {path.stem: path.read_text("utf-8") for path in (DOCS / "templates").glob("*.md")}
NO_RESULTS = ROOT / "nowhere"
HOW_TO = (DOCS / "how-to.md").read_text("utf-8")
PAGES = {**TEMPLATES, "how-to": HOW_TO}


def row_of(claim, values):
    """The ledger's row of a claim, had it been measured so."""
    has_theory = claim.theory is not Claim.theory
    theory = 0.84 if has_theory else nan
    made_up = dataclasses.replace(
        claim, measure=lambda _: values, theory=lambda _: theory, timed=False
    )
    return judge(made_up, None, 0.95)


@pytest.fixture
def ledger():
    """A made-up ledger of all claims; one seed never gets where a claim says."""
    values = {"parameters": {None: 69_325.0}, "carry_lifted_in": {1: 10.0, 2: inf, 3: 20.0}}
    return {c.key: row_of(c, values.get(c.key, {1: 0.5, 2: -0.25, 3: 1.0})) for c in ALL_CLAIMS}


# --- Blanks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_every_blank_of_a_template_is_filled(template, update, ledger, config):
    page = update.fill(template, update.blanks_for(ledger.values(), config, NO_RESULTS))
    assert not re.search(r"[{}]|\bnan\b|\bNone\b", page)


def test_every_claim_but_those_of_time_is_on_a_page():
    blanks = set(re.findall(r"\{([\w-]+)[.}]", "".join(TEMPLATES.values())))
    keys = {claim.key for claim in ALL_CLAIMS}
    missing = keys - {"run_time"} - blanks
    assert not missing, (
        f"say of {sorted(missing)} what was measured: in docs/templates, as {{KEY.ours}}"
    )
    assert blanks - {"resting_points", "reward_models"} <= keys


def test_numbers_are_written_as_in_the_ledger(update, ledger, config):
    blanks = update.blanks_for(ledger.values(), config, NO_RESULTS)
    text = "{carry_lifted.ours} {carry_lifted.mean:.2f} {carry_lifted_in.ours} {parameters.ours}"
    assert update.fill(text, blanks) == "0.500 / −0.250 / 1.000 0.42 10 / never / 20 69,325"
    text = "{anchor_matters_lr1e-4.limits}; {cold_learns_nothing.limits}; {carry_lifted.seeds}"
    assert update.fill(text, blanks) == "−0.1 to 0.1; at most 0.05; 1, 2, 3"
    assert update.fill("{anchor_matters_lr1e-3.limits}", blanks) == "at least 0.1"
    low, high = (ledger["carry_lifted"][f"interval_{end}"] for end in ("low", "high"))
    assert update.fill("{carry_lifted.interval}", blanks) == f"[{low:.3f}, {high:.3f}]"
    assert update.fill("{carry_lifted_in.interval}", blanks) == "(no interval)"


@pytest.mark.parametrize(
    ("blank", "message"),
    [
        ("{carry_lifte.mean}", "no claim carry_lifte. Did you mean carry_lifted?"),
        ("{carry_lifted.men}", "no field 'men'; it has document, ours"),
        ("{carry_lifted}", "no field ''"),
        ("{carry_lifted.mean.real}", "no field 'mean.real'"),
        ("{}", "no claim"),
        ("{carry_lifted.mean", "written twice"),
        ("{carry_lifted.ours:.3f}", "not a format for '0.500 / −0.250 / 1.000': '.3f'"),
        ("{no_collapse.document}", "no such value; verdict: fails"),
        ("{largest_kl.theory:.3f}", "no such value"),
        ("{carry_lifted_in.mean:.3f}", "no such value"),
    ],
)
def test_a_blank_that_nothing_fills_is_refused(blank, message, update, ledger, config):
    blanks = update.blanks_for(ledger.values(), config, NO_RESULTS)
    with pytest.raises(UserError, match=re.escape(message)):
        update.fill(f"a text {blank}", blanks)


def test_what_was_not_measured_is_refused(update, ledger, config):
    (claim,) = (c for c in ALL_CLAIMS if c.key == "carry_lifted")
    for values in ({}, {1: nan, 2: 1.0}):
        rows = ledger | {"carry_lifted": row_of(claim, values)}
        with pytest.raises(UserError, match="verdict: not measured"):
            update.fill("{carry_lifted.ours}", update.blanks_for(rows.values(), config, NO_RESULTS))


@pytest.fixture
def docs(tmp_path, update, monkeypatch, ledger):
    """A folder in place of docs/, with one template, and results beside it."""
    (tmp_path / "templates").mkdir()
    pq.write_table(pa.Table.from_pylist(list(ledger.values()), CLAIMS), tmp_path / "claims.parquet")
    monkeypatch.setattr(update, "DOCS", tmp_path)
    return tmp_path


def test_pages_are_written_all_or_none(docs, update):
    (docs / "templates/fig1.md").write_text("# One\n\n{carry_lifted.mean:.3f}\n")
    update.write_pages(docs)
    note, page = (docs / "fig1.md").read_text("utf-8").split("\n\n", 1)
    assert "templates/fig1.md" in note
    assert page == "# One\n\n0.417\n"
    (docs / "templates/fig1.md").write_text("changed")
    (docs / "templates/fig2.md").write_text("{carry_lifte.mean}")
    with pytest.raises(SystemExit, match=r"fig2\.md: .*Did you mean carry_lifted"):
        update.write_pages(docs)
    assert "0.417" in (docs / "fig1.md").read_text("utf-8")


# --- Pages and their overlays ---------------------------------------------------------------------


def test_each_figure_has_a_template_with_its_picture(config):
    missing = set(config.figures) - set(TEMPLATES)
    assert not missing, f"write docs/templates/{{{','.join(missing)}}}.md: a page for each figure"
    assert set(TEMPLATES) <= set(config.figures)
    for name, template in TEMPLATES.items():
        assert f"](figures/{name}.png)" in template


BY_HAND = [DOCS / f"{page}.md" for page in ("how-to", "extending", "tutorial", "reading-results")]


@pytest.mark.parametrize(
    "path", [*BY_HAND, *(DOCS / "templates").glob("*.md")], ids=lambda p: p.stem
)
def test_links_lead_to_pages_and_headings(path):
    for target in re.findall(r"\]\((?!http)([^)]+)\)", path.read_text("utf-8")):
        file, _, anchor = target.partition("#")
        assert (DOCS / file).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", (DOCS / file).read_text("utf-8"), re.M)
            assert anchor in {re.sub(r"\W+", "-", heading.lower()) for heading in headings}, target


def overlays():
    """Each YAML block of the pages, and the commands between it and the next one."""
    for name, page in PAGES.items():
        for number, part in enumerate(page.split("```yaml\n")[1:]):
            overlay, rest = part.split("```\n", 1)
            commands = "".join(re.findall(r"```sh\n(.*?)```", rest, flags=re.DOTALL))
            yield pytest.param(overlay, commands, id=f"{name}-{number}")


@pytest.mark.parametrize(("overlay", "commands"), list(overlays()))
def test_overlays_pass_and_their_commands_ask_for_what_there_is(overlay, commands, raw_config):
    config = load_config(merge(raw_config, yaml.safe_load(overlay)))
    assert "snakemake --cores 4 results/" in commands
    for target in re.findall(r" results/(\S+)", commands):
        tables = {f"tables/{study}.parquet" for study in config.studies}
        assert target in tables | {f"{figure}.pdf" for figure in config.figures} | {"claims.md"}
