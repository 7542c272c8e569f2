"""A build backend that wraps a project's own, so that any front end builds variants (PEP 517).

A front end requests a variant by config settings, such as ``variant-label=v3``. Then `wheelfit
build` runs in the build environment that the front end made. All other hooks are those of the
project's own backend.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wheelfit.building.provider_answers import plugin_requirements
from wheelfit.building.table_editing import read_pyproject
from wheelfit.core.project_table import read_project_table
from wheelfit.operations.build import build
from wheelfit.operations.build_request import BuildRequest
from wheelfit.operations.context import Context, Reporter
from wheelfit.projects.backend import PASSTHROUGH_VARIABLE
from wheelfit_runtime.errors import WheelfitError

__all__ = ["build_wheel", "get_requires_for_build_wheel"]

_TABLE = "[tool.wheelfit.build]"
_OTHER_HOOKS = frozenset({
    "build_editable",
    "build_sdist",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
})  # fmt: skip
ConfigSettings = Mapping[str, str | Sequence[str]]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turn errors into `SystemExit`, which front ends show without a traceback."""
    try:
        yield
    except WheelfitError as error:
        parts = (error.message, error.where, error.note, error.hint)
        raise SystemExit("\n".join(filter(None, parts))) from None


@_plain_errors()
def build_wheel(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel, of a variant if the settings request one, and return its file name."""
    settings = dict(config_settings or {})
    if _is_inner_call() or not (_mentions_variants(settings) or _table_changes_builds()):
        filename = _own_backend().build_wheel(wheel_directory, settings or None, metadata_directory)
        return str(filename)
    return _build(_build_request(settings, wheel_directory))


@_plain_errors()
def get_requires_for_build_wheel(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return the build requirements of a wheel, with the plugins that a build runs (B-20)."""
    settings = dict(config_settings or {})
    hook = getattr(_own_backend(), "get_requires_for_build_wheel", None)
    if _is_inner_call():
        return [] if hook is None else list(hook(settings))
    plain_settings = {
        key: value for key, value in settings.items() if not _mentions_variants([key])
    }
    own = [] if hook is None else hook(plain_settings or None)
    table = read_project_table(_pyproject(), where="pyproject.toml")
    plugins = () if table is None else plugin_requirements(table, table.priorities, validate=False)
    return [*own, *plugins]


def __getattr__(name: str) -> Any:
    """Return another hook of the project's own backend."""
    # The metadata hook of the project's backend does not know `dependencies` of `_TABLE`. Without
    # the hook, the front end builds a wheel and reads its metadata.
    if name not in _OTHER_HOOKS or ("metadata" in name and "dependencies" in _build_table()):
        raise AttributeError(name)
    return getattr(_own_backend(), name)


def _is_inner_call() -> bool:
    """Return whether the caller is `wheelfit build`, which has read settings and table itself."""
    return PASSTHROUGH_VARIABLE in os.environ


def _mentions_variants(keys: Sequence[str] | Mapping[str, object]) -> bool:
    return any("variant" in key for key in keys)


def _pyproject() -> dict[str, Any]:
    """Return the parsed ``pyproject.toml``; front ends call hooks in its folder."""
    path = Path("pyproject.toml")
    return read_pyproject(path.read_bytes(), where=path.name)[1]


def _build_table() -> dict[str, Any]:
    table: Any = _pyproject()
    for key in ("tool", "wheelfit", "build"):
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _table_changes_builds() -> bool:
    """Return whether the table has more than the name of the project's own backend."""
    return bool(_build_table().keys() - {"backend", "backend-path"})


def _own_backend() -> Any:
    """Import the build backend of the project itself, as a front end would."""
    build_table = _build_table()
    backend_name = build_table.get("backend")
    if not isinstance(backend_name, str):
        raise SystemExit(f'pyproject.toml: {_TABLE} must have backend = "…", the project\'s own')
    module, _, attribute = backend_name.partition(":")
    backend_path = build_table.get("backend-path", [])
    if not isinstance(backend_path, list) or not all(
        isinstance(path, str) for path in backend_path
    ):
        raise SystemExit(f"pyproject.toml: backend-path of {_TABLE} must be a list of strings")
    folders = [str(Path(folder).resolve()) for folder in backend_path]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    backend: Any = importlib.import_module(module)
    for name in filter(None, attribute.split(".")):
        backend = getattr(backend, name)
    return backend


def _build_request(settings: Mapping[str, str | Sequence[str]], folder: str) -> BuildRequest:
    texts = [
        f"{key}={text}"
        for key, value in settings.items()
        for text in ([value] if isinstance(value, str) else value)
    ]
    return BuildRequest(
        folder=folder,
        config_settings=tuple(texts),
        python=sys.executable,
        no_build_isolation=True,
    )


class _PrintingReporter(Reporter):
    """A reporter that prints, as backends do."""

    def note(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    remark = warn = note


def _build(request: BuildRequest) -> str:
    """Build the wheel of a request, and return its file name."""
    report = build(request, Context(reporter=_PrintingReporter()))
    for text in report.warnings:
        sys.stdout.write(f"warning: {text}\n")
    (path,) = report.files
    return path.name
