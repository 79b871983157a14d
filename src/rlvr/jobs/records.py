"""Files of numbers: Parquet with provenance, and writing that never leaves half a file.

A schema stands beside what fills it.
"""

import glob
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlvr.errors import UserError
from rlvr.jobs.digest import package_versions, source_digest


def column(
    name: str, kind: pa.DataType, unit: str, description: str, not_finite: str = ""
) -> pa.Field:
    """A column that says in the file itself what it holds.

    `not_finite` says what nan or inf mean there. Without it, a file with such a number is an error.
    """
    metadata = {"unit": unit, "description": description, "not_finite": not_finite}
    return pa.field(name, kind, metadata={key: text for key, text in metadata.items() if text})


def columns_not_finite(table: pa.Table, schema: pa.Schema) -> list[str]:
    """Names of the columns of `schema` that hold nan or inf in `table` and must not."""
    checked = [field for field in schema if b"not_finite" not in (field.metadata or {})]
    return [field.name for field in checked if not _finite(table[field.name].to_pylist())]


def _finite(values: Iterable[Any]) -> bool:
    """Whether all numbers among values, and in lists of them, are finite."""
    return all(
        _finite(value)
        if isinstance(value, list)
        else not isinstance(value, float) or isfinite(value)
        for value in values
    )


def provenance(
    stage: str,
    run: dict[str, Any],
    settings: dict[str, Any],
    parts: Sequence[str] = (),
    **more: Any,
) -> dict:
    """What made a file: nothing in it changes from one run to the next of the same inputs.

    `stage` is the stage's module, `run` its keys, `settings` all that it was given, `parts` the
    modules that it found by a name in its settings.
    """
    return {
        "stage": stage,
        "run": run,
        "settings": settings,
        "code": source_digest(stage, *parts),
        "packages": package_versions(stage, *parts),
        **more,
    }


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` at the end: whole, or not at all.

    Raises a `UserError` where the file system does not let us, or `path` is not a file's.
    """
    if not path.name or (path.exists() and not path.is_file()):
        raise UserError(f"{path}: is there and no file, so that nothing was written.")
    # The process id: what a killed Snakemake left running may write the same file just now.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
            left.unlink(missing_ok=True)  # by a process that was killed
        yield partial
        partial.replace(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error  # pyarrow words it otherwise
        raise UserError(f"{path}: could not be written: {reason}. What was there stays.") from None
    finally:
        with suppress(OSError):  # nowhere to write means nothing to remove
            partial.unlink(missing_ok=True)


def write_parquet(
    path: Path, rows: Iterable[dict[str, Any]] | pa.Table, schema: pa.Schema, provenance: dict
) -> None:
    """Write rows of `schema`, with its descriptions and the provenance (JSON) as metadata.

    Raises a `UserError`, and writes nothing, where a number is not finite.
    """
    table = rows if isinstance(rows, pa.Table) else _table(list(rows), schema)
    if wrong := columns_not_finite(table, schema):
        raise UserError(
            f"{path}: was not written, since it would hold numbers that are not finite, in "
            f"{', '.join(wrong)}: training has diverged. It needs a smaller learning rate."
        )
    table = table.cast(schema).replace_schema_metadata({"provenance": json.dumps(provenance)})
    with replacing(path) as partial:
        # Not Snappy, whose bytes differ between processors.
        pq.write_table(table, partial, compression="zstd")


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table; a key that a row lacks is null."""
    columns = [_column([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.table(columns, schema=schema)


NUMBERS = {pa.float64(): np.float64, pa.int64(): np.int64}


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values, or None, as a column.

    Of numbers it is put together by hand: pa.array looks for pandas, whose import takes a training
    job as long as fifty iterations.
    """
    null = [value is None for value in values]
    validity = pa.py_buffer(np.packbits(np.logical_not(null), bitorder="little"))
    if pa.types.is_list(kind) and kind.value_type in NUMBERS:
        lists = [value or [] for value in values]
        offsets = np.cumsum([0, *map(len, lists)], dtype=np.int32)
        items = _column([item for one in lists for item in one], kind.value_type)
        buffers = [validity, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, len(values), buffers, children=[items])
    if kind not in NUMBERS:
        return pa.array(values, kind)
    filled = [0 if value is None else value for value in values]
    numbers = np.array(filled, dtype=None if filled else NUMBERS[kind])
    numbers = numbers.astype(NUMBERS[kind], casting="safe")  # no 1.5 for a whole number
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(numbers)])


def read_parquet(path: Path, schema: pa.Schema) -> tuple[pa.Table, dict[str, Any]]:
    """The columns of `schema` and the provenance of a Parquet file of ours.

    Raises a `UserError` that names the file where it is missing, damaged or of another schema.
    """
    try:
        table = pq.read_table(path, partitioning=None)
        metadata = table.schema.metadata or {}
        made_by = json.loads(metadata.get(b"provenance", b"{}"))
        found = {field.name: field.type for field in table.schema}
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file.") from None
    except (pa.ArrowException, ValueError, OSError) as error:  # whatever damage looks like
        raise UserError(
            f"{path}: not a readable Parquet file ({error}). Delete it and make it again."
        ) from None
    wrong = [
        f"column {field.name} is {found.get(field.name, 'missing')}, expected {field.type}"
        for field in schema
        if found.get(field.name) != field.type
    ]
    there = pa.schema([field for field in schema if found.get(field.name) == field.type])
    wrong += [
        f"column {name} holds numbers that are not finite"
        for name in columns_not_finite(table, there)
    ]
    if not {"run", "settings"} <= made_by.keys():
        wrong.append("its metadata does not say what made it")
    if wrong:
        raise UserError(
            f"{path}: not a file that this version of rlvr can read. {'; '.join(wrong)}. "
            "Delete it and make it again."
        )
    return table.select(schema.names), made_by
