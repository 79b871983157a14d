"""Files of numbers: Parquet with provenance, and writing that never leaves half a file.

Schemas stand with what fills them: `rlvr.schemas` for GRPO runs, `rlvr.sft`, `rlvr.ledger`.
"""

import importlib.metadata
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr.errors import UserError
from rlvr.source_digest import source_digest


def column(name: str, kind: pa.DataType, unit: str, description: str) -> pa.Field:
    """A column that says in the file itself what it holds."""
    return pa.field(name, kind, metadata={"unit": unit, "description": description})


def provenance(stage: str, run: dict[str, Any], settings: dict[str, Any], **more: Any) -> dict:
    """What made a file: nothing in it changes from one run to the next of the same inputs.

    `stage` is the stage's module, `run` its keys, `settings` all that it was given.
    """
    packages = ("torch", "numpy", "pyarrow", "safetensors", "rlvr")
    return {
        "stage": stage,
        "run": run,
        "settings": settings,
        "code": source_digest(stage),
        "packages": {package: importlib.metadata.version(package) for package in packages},
        **more,
    }


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` at the end: whole, or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_parquet(
    path: Path, rows: Iterable[dict[str, Any]] | pa.Table, schema: pa.Schema, provenance: dict
) -> None:
    """Write rows of `schema`, with its descriptions and the provenance (JSON) as metadata."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema)
    table = table.cast(schema).replace_schema_metadata({"provenance": json.dumps(provenance)})
    with replacing(path) as partial:
        pq.write_table(table, partial)


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
    if not {"run", "settings"} <= made_by.keys():
        wrong.append("its metadata does not say what made it")
    if wrong:
        raise UserError(
            f"{path}: not a file that this version of rlvr can read. {'; '.join(wrong)}. "
            "Delete it and make it again."
        )
    return table.select(schema.names), made_by
