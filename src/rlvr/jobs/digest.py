"""What a stage's results rest on besides its settings: the code, as a digest, and packages.

Both stand in each job's params, so that Snakemake sees them change. Comments, docstrings and layout
do not count; a helper two imports away does.
"""

import ast
import functools
import hashlib
import importlib.metadata
import re
from pathlib import Path
from typing import Any

PACKAGE = "rlvr"
ROOT = Path(__file__).parents[1]

# Settings reach a stage as values, and those stand in its rule's params; from progress nothing
# reaches a result. Without this, a new option of one figure would train every model again.
LEFT_OUT = ("rlvr.config.methods.", "rlvr.config.settings.", "rlvr.jobs.progress.")

# Numbers and pictures come from these; the rest only carries settings from place to place.
COMPUTING = {"matplotlib", "mpmath", "numpy", "pandas", "pyarrow", "safetensors", "torch"}


@functools.cache
def source_digest(*modules: str) -> str:
    """16 hex digits that change when the code of modules, or of what they import from us, does.

    A stage's module, and those that it finds by a name in its settings.
    """
    parts = [(name, _hash_of(*_source(name)), _c_code(name)) for name in _reached(*modules)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@functools.cache
def package_versions(*modules: str) -> dict[str, str]:
    """Versions of the computing packages that modules, or what they import from us, import.

    Releases alone: builds of one release (2.13.0+cpu, 2.13.0+cu130) count as the same.
    """
    roots = {name.split(".")[0] for reached in _reached(*modules) for name in _imports(reached)}
    return {
        package: importlib.metadata.version(package).split("+")[0]
        for package in sorted(roots & COMPUTING)
    }


@functools.cache
def _reached(*modules: str) -> list[str]:
    """The modules and those of ours that they import, directly or not."""
    reached: set[str] = set()
    waiting = {*modules}
    while waiting:
        reached |= waiting
        imported = set().union(*map(_our_imports, waiting)) - reached
        waiting = {name for name in imported if not f"{name}.".startswith(LEFT_OUT)}
    return sorted(reached)


def _file(module: str) -> Path | None:
    """The source file of one of our modules; None if there is no such module."""
    base = ROOT.joinpath(*module.split(".")[1:])
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


@functools.cache
def _source(module: str) -> tuple[Path, str]:
    """Its file, and the text in it: what follows from these is worked out once for all stages."""
    path = _file(module)
    if path is None:
        raise ModuleNotFoundError(f"{PACKAGE} has no module {module}")
    return path, path.read_text(encoding="utf-8")


def _c_code(module: str) -> list[str]:
    """C beside a package's `__init__`, without comments and layout."""
    path = _file(module)
    sources = sorted(path.parent.glob("*.c")) if path.name == "__init__.py" else []
    texts = (source.read_text(encoding="utf-8") for source in sources)
    return [" ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).split()) for text in texts]


def _imports(module: str) -> set[str]:
    """All that `module` imports, anywhere in it, with full names."""
    return _imports_in(*_source(module))


@functools.cache
def _imports_in(path: Path, text: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            raise NotImplementedError(f"{path}: write imports of {PACKAGE} with the full name")
    return names


@functools.cache
def _hash_of(path: Path, text: str) -> str:
    """Of the code alone: comments, docstrings and layout change nothing."""
    return hashlib.sha256(repr(_shape(ast.parse(text, str(path)))).encode()).hexdigest()


def _our_imports(module: str) -> set[str]:
    """Our modules among them, and the packages that they lie in."""
    names = _imports(module)
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
