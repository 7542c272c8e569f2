"""A script that describes a build environment: its backend, some packages, its compiler.

It is run by the interpreter of the environment, with a question and an answer as JSON. The
examined modules are not imported. Must run on CPython 3.9.
"""

import importlib.metadata
import importlib.util
import json
import sys
import sysconfig
from pathlib import Path


def main() -> None:
    """Answer the question in the first argument."""
    question = json.loads(sys.argv[1])
    sys.path[:0] = question["path"]
    top = question["backend"].partition(".")[0]
    library, function = question["library"], question["function"]
    paths = _paths(top)
    answer = {
        "backend": _distribution(top) if paths else None,
        "mentions_library": bool(library) and any(_mentions(path, library) for path in paths),
        "has_function": bool(function) and _defines(*function),
        "packages": {name: _version(name) for name in question["packages"]},
        "compiler": {name: sysconfig.get_config_var(name) or "" for name in ("CC", "CFLAGS")},
    }
    sys.stdout.write(json.dumps(answer))


def _paths(top: str) -> "list[Path]":
    """Return the paths of a package; a single module is a file."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    return [Path(location) for location in spec.submodule_search_locations or [spec.origin or ""]]


def _mentions(path: Path, text: str) -> bool:
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return any(text in file.read_text(encoding="utf-8", errors="replace") for file in files)


def _defines(module: str, text: str) -> bool:
    """Return whether the source of a module has the text that defines a function."""
    top, *rest = module.split(".")
    for root in _paths(top):
        path = root.joinpath(*rest)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file() and _mentions(file, text):
                return True
    return False


def _distribution(top: str) -> list[str]:
    """Return name and version of a module's distribution; the module's name where it has none."""
    for distribution in importlib.metadata.distributions():
        modules = (distribution.read_text("top_level.txt") or "").split()
        if top in (modules or {str(path).partition("/")[0] for path in distribution.files or ()}):
            return [distribution.metadata["Name"], distribution.version]
    return [top, ""]


def _version(name: str) -> "str | None":
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
