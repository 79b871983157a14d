"""A digest of the code behind a stage, so that Snakemake re-runs it when that code changes.

Comments, docstrings and layout do not count; a helper two imports away does.
"""

import ast
import functools
import hashlib
from pathlib import Path
from typing import Any

PACKAGE = "rlvr"
ROOT = Path(__file__).parent

# Settings reach a stage as values, and those stand in its rule's params. Without this exception a
# new option of one figure would train every model again.
LEFT_OUT = {"rlvr.settings"}


@functools.cache
def source_digest(module: str) -> str:
    """16 hex digits that change when the code of `module`, or of what it imports from us, does."""
    reached: set[str] = set()
    waiting = {module}
    while waiting:
        reached |= waiting
        waiting = set().union(*map(_imports, waiting)) - reached - LEFT_OUT
    shapes = [(name, _shape(_tree(name))) for name in sorted(reached)]
    return hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]


def _file(module: str) -> Path | None:
    """The source file of one of our modules; None if there is no such module."""
    base = ROOT.joinpath(*module.split(".")[1:])
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


@functools.cache
def _tree(module: str) -> ast.Module:
    path = _file(module)
    if path is None:
        raise ModuleNotFoundError(f"{PACKAGE} has no module {module}")
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(module: str) -> set[str]:
    """Our modules that `module` imports, anywhere in it, and the packages they lie in."""
    names: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            raise NotImplementedError(f"{module}: write imports of {PACKAGE} with the full name")
    parents = {name.rsplit(".", depth)[0] for name in names for depth in range(name.count(".") + 1)}
    return {name for name in parents if name.split(".")[0] == PACKAGE and _file(name)}


def _shape(node: Any) -> Any:
    """The code below a node as nested tuples, without comments, docstrings and layout.

    Empty fields are left out: which there are differs between Python versions.
    """
    if isinstance(node, list):
        return [_shape(item) for item in node if not _is_string(item)]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, _shape(value)) for name, value in ast.iter_fields(node) if value is not None)
    return (type(node).__name__, *((name, shape) for name, shape in fields if shape != []))


def _is_string(node: Any) -> bool:
    """Whether it is a string that stands alone: a docstring, or one of an attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
