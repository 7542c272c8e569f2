"""A script that describes a build environment: its backend, some packages, its compiler.

It is run by the interpreter of the environment, with a question and an answer as JSON. The
examined modules are not imported. Must run on CPython 3.9.
"""

import importlib.metadata
import importlib.util
import json
import sys
import sysconfig


def main() -> None:
    """Answer the question in the first argument."""
    question = json.loads(sys.argv[1])
    sys.path[:0] = question["path"]
    module = question["backend"].partition(".")[0]
    answer = {
        "backend": _distribution(module) if _is_installed(module) else None,
        "packages": {name: _version(name) for name in question["packages"]},
        "compiler": {name: sysconfig.get_config_var(name) or "" for name in ("CC", "CFLAGS")},
    }
    sys.stdout.write(json.dumps(answer))


def _is_installed(module: str) -> bool:
    """Return whether there is a package or module of this name."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _distribution(module: str) -> list[str]:
    """Return name and version of a module's distribution; the module's name where it has none."""
    for distribution in importlib.metadata.distributions():
        modules = (distribution.read_text("top_level.txt") or "").split()
        if module in (
            modules or {str(path).partition("/")[0] for path in distribution.files or ()}
        ):
            return [distribution.metadata["Name"], distribution.version]
    return [module, ""]


def _version(name: str) -> "str | None":
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
