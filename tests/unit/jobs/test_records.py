"""Parquet files: schema, provenance, and that a failed writing leaves nothing behind."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.claims.claim import CLAIMS
from rlvr.errors import UserError
from rlvr.jobs import records
from rlvr.jobs.records import column, provenance, read_parquet, replacing, write_parquet
from rlvr.methods.columns import METRICS
from rlvr.methods.sft import SFT_METRICS
from rlvr.results.schemas import RUN_KEYS, STUDY

MADE_BY = {"run": {"seed": 3}, "settings": {}}
SCHEMA = pa.schema([column("x", pa.int64(), "1", "a number"), column("y", pa.float64(), "1", "b")])


def test_round_trip_with_descriptions_and_provenance(tmp_path):
    path = tmp_path / "deep" / "t.parquet"
    write_parquet(path, [{"x": 1, "y": 0.5}, {"x": 2}], SCHEMA, MADE_BY)
    table, made_by = read_parquet(path, SCHEMA)
    assert table.to_pylist() == [{"x": 1, "y": 0.5}, {"x": 2, "y": None}]
    assert made_by == MADE_BY
    stored = pq.read_schema(path)
    assert stored.field("x").metadata[b"description"] == b"a number"


def test_equal_data_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        write_parquet(tmp_path / name, [{"x": 1, "y": 0.1}], SCHEMA, MADE_BY)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("schema", [METRICS, RUN_KEYS, STUDY, SFT_METRICS, CLAIMS])
def test_every_column_is_documented(schema):
    for field in schema:
        assert field.metadata[b"unit"]
        assert field.metadata[b"description"]


def test_metrics_have_the_columns_of_the_architecture():
    documented = [
        "iteration",
        "reward_mean",
        "reward_counts",
        "zero_signal_fraction",
        "all_wrong_fraction",
        "all_right_fraction",
        "kl",
        "entropy",
        "clip_fraction",
        "gradient_norm",
        "accuracy",
        "accuracy_carry",
        "success_probability",
        "success_probability_carry",
        "kl_floor",
    ]
    assert [name for name in METRICS.names if name in documented] == documented
    assert STUDY.names == ["method", "recipe", "teacher", "beta", "seed", *METRICS.names]


def test_failed_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as partial:
        (partial.write_text("half"), 1 / 0)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_writing_that_the_file_system_refuses_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with (
        pytest.raises(UserError, match=r"file/t\.parquet: could not be written: File exists"),
        replacing(tmp_path / "file" / "t.parquet"),
    ):
        pass


@pytest.mark.parametrize("name", ["folder", "device"])
def test_what_is_no_file_is_not_replaced(tmp_path, name):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/null")
    with pytest.raises(UserError, match="is there and no file"), replacing(path) as partial:
        partial.write_text("x")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_what_a_killed_process_left_is_removed_and_what_another_writes_is_not_touched(tmp_path):
    (tmp_path / ".t.parquet.123.partial").write_text("half")
    (tmp_path / ".other.parquet.123.partial").write_text("half")
    with replacing(tmp_path / "t.parquet") as partial:
        partial.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".other.parquet.123.partial",
        "t.parquet",
    ]


def a_row(schema):
    """A row of a schema, with a number wherever there is to be one."""
    values = {pa.int64(): 1, pa.float64(): 0.5, pa.string(): "x"}
    lists = {pa.list_(kind): [value] for kind, value in values.items()}
    return {field.name: (values | lists)[field.type] for field in schema}


FLOATS = [pytest.param(schema, field, id=f"{name}-{field.name}")
          for name, schema in (("sft", SFT_METRICS), ("grpo", METRICS), ("study", STUDY),
                               ("claims", CLAIMS))
          for field in schema if field.type in (pa.float64(), pa.list_(pa.float64()))]  # fmt: skip


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(("schema", "field"), FLOATS)
def test_numbers_that_are_not_finite_are_neither_written_nor_read(tmp_path, schema, field, bad):
    """Unless the column says what they mean there."""
    path, row = tmp_path / "t.parquet", a_row(schema)
    write_parquet(path, [row], schema, MADE_BY)
    whole = path.read_bytes()
    row[field.name] = [bad] if field.type == pa.list_(pa.float64()) else bad
    rows = [a_row(schema), row]
    if b"not_finite" in field.metadata:
        assert schema is CLAIMS
        write_parquet(path, rows, schema, MADE_BY)
        assert read_parquet(path, schema)[0].num_rows == 2
        return
    with pytest.raises(
        UserError, match=rf"would hold numbers that are not finite, in {field.name}:"
    ):
        write_parquet(path, rows, schema, MADE_BY)
    assert path.read_bytes() == whole
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    with pytest.raises(UserError, match=f"column {field.name} holds numbers that are not finite"):
        read_parquet(path, schema)


def test_nothing_measured_is_no_number_at_all(tmp_path):
    path = tmp_path / "t.parquet"
    write_parquet(path, [{"x": 1, "y": None}], SCHEMA, MADE_BY)
    assert read_parquet(path, SCHEMA)[0]["y"].to_pylist() == [None]


def test_missing_column_and_wrong_type_are_named(tmp_path):
    path = tmp_path / "t.parquet"
    write_parquet(path, [{"x": 1}], pa.schema([SCHEMA.field("x")]), {})
    with pytest.raises(UserError, match=r"t\.parquet: .*column y is missing, expected double"):
        read_parquet(path, SCHEMA)
    write_parquet(path, [{"x": 1, "y": 1}], pa.schema([("x", pa.int64()), ("y", pa.int64())]), {})
    with pytest.raises(UserError, match=r"column y is int64, expected double"):
        read_parquet(path, SCHEMA)


def test_files_that_are_not_ours_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    with pytest.raises(UserError, match="no such file"):
        read_parquet(path, SCHEMA)
    for content in (b"", b"PAR1 and so on"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"t\.parquet: not a readable Parquet file"):
            read_parquet(path, SCHEMA)
    pq.write_table(pa.table({"x": [1], "y": [1.0]}), path)
    with pytest.raises(UserError, match="does not say what made it"):
        read_parquet(path, SCHEMA)


def test_any_damaged_byte_is_refused_or_harmless(tmp_path):
    """Never a stack trace, whatever byte is damaged."""
    path = tmp_path / "t.parquet"
    write_parquet(path, [{"x": i, "y": 0.5} for i in range(5)], SCHEMA, MADE_BY)
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x91]) + whole[position + 1 :])
        try:
            read_parquet(path, SCHEMA)
        except UserError:
            refused += 1
    assert refused > len(whole) / 4


def test_provenance_says_what_made_a_file_and_nothing_that_changes():
    one, two = (provenance("rlvr.results.table", {"seed": 1}, {"a": 2}) for _ in range(2))
    assert one == two
    assert {"stage", "run", "settings", "code", "packages"} == one.keys()
    assert one["packages"].keys() == {"numpy", "pyarrow"}


COLUMNS = pa.schema(
    [
        column("x", pa.float64(), "1", "a number", not_finite="it may be"),
        column("n", pa.int64(), "1", "a whole number"),
        column("lists", pa.list_(pa.int64()), "1", "whole numbers"),
        column("words", pa.string(), "text", "words"),
    ]
)
whole = st.none() | st.integers(-(2**63), 2**63 - 1)
any_rows = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "x": st.none() | st.floats() | st.integers(-5, 5),
            "n": whole,
            "lists": st.none() | st.lists(st.integers(0, 9)),
            "words": st.none() | st.text(),
        },
    )
)


@given(any_rows)
def test_rows_become_the_table_that_pyarrow_makes_of_them(rows):
    """It is put together by hand, to leave pandas out."""
    table = records._table(rows, COLUMNS)
    table.validate(full=True)
    expected = pa.Table.from_pylist(rows, COLUMNS).to_pylist()
    assert list(map(repr, table.to_pylist())) == list(map(repr, expected))


def test_no_fraction_in_a_column_of_whole_numbers():
    with pytest.raises(TypeError):
        records._table([{"n": 1.5}], COLUMNS)
