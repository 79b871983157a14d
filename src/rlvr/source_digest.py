"""A digest of the code behind a stage, so that Snakemake re-runs it when that code changes.

Comments, docstrings and layout do not count; a helper two imports away does.
"""

import ast
import functools
import hashlib
from pathlib import Path

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
    text = "\n".join(f"{name}\n{_normalised(name)}" for name in sorted(reached))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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


def _normalised(module: str) -> str:
    """The module's code without comments, docstrings and layout."""
    tree = _tree(module)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # A string that stands alone is a docstring, or one of an attribute: it does nothing.
            node.body = [item for item in body if not _is_string(item)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_string(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
