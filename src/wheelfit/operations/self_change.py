"""Changes of the environment that wheelfit itself runs from.

Modules are imported when they are needed. After a change that replaces wheelfit or one of its
dependencies, an import would load another version, or a module that a wheel has just installed. So
all modules that may still be needed are imported before, and none from that environment afterwards.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

import wheelfit
import wheelfit_runtime
from wheelfit.installation.environment_folders import EnvironmentFolders
from wheelfit_runtime.errors import PolicyRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import ModuleType

    from wheelfit.installation.environment import Environment
    from wheelfit.installation.installed import Installed
    from wheelfit.installation.plan import Plan
    from wheelfit.wheels.unpacked import UnpackedWheel

_PACKAGES = frozenset(
    [
        "build", "colorama", "filelock", "installer", "isal", "markdown_it", "mdurl", "msgspec",
        "nab_resolver", "packaging", "pygments", "pyproject_hooks", "rich", "tomli", "tomli_w",
        "truststore", "urllib3", "wheelfit", "wheelfit_runtime", "zlib_ng",
    ]
)  # fmt: skip
"""Packages that wheelfit may import beside the standard library during an installation."""
_NAMES = {name.replace("_", "-") for name in _PACKAGES - {"markdown_it"}} | {"markdown-it-py"}
"""Distribution names of these packages."""
_LAYERS = (
    "core", "wheels", "sources", "resolution", "checking", "installation", "operations", "cli",
)  # fmt: skip
"""Layers with modules that may be needed after the environment is changed."""
_EXCLUDED_FOLDERS = frozenset(["commands", "plugins", "isolated", "builds"])
"""Folders of these layers without such modules."""


def check_own_requirements(plan: Plan, environment: Environment) -> None:
    """Raise if a change would break wheelfit itself.

    Requirements that are unmet before the change are ignored, as it may be one step of a repair.
    wheelfit itself may be removed or replaced.

    :raises PolicyRefusal: ``own-requirement``; a requirement of wheelfit, or of its dependencies,
        would no longer be met.
    """
    changed = {entry.name for entry in plan.remove} | {pin.name for pin in plan.install}
    if not changed & _NAMES or not _is_own_environment(environment):
        return
    from wheelfit.doctor.own_requirements import DependencyRelease, unmet_requirements

    changes: dict[str, DependencyRelease | None] = {entry.name: None for entry in plan.remove}
    for pin in plan.install:
        requires = () if pin.core is None else pin.core.requires_texts
        changes[pin.name] = DependencyRelease(str(pin.version), tuple(requires))
    unmet = unmet_requirements(changes)
    if not unmet:
        return
    unmet_before = {(need.dependent, need.requirement) for need in unmet_requirements()}
    refused = [need for need in unmet if (need.dependent, need.requirement) not in unmet_before]
    if refused:
        first = refused[0]
        becomes = first.installed_version or ("removed" if first.name in changes else "missing")
        raise PolicyRefusal(
            f"this would break wheelfit, which runs from this environment: "
            f"{first.name} would be {becomes}, and {first.dependent} requires {first.requirement}",
            code="own-requirement",
            where=environment.name,
            note="\n".join(map(str, refused)) if len(refused) > 1 else None,
            hint="nothing was changed; name another environment with --python or --target, and "
            "keep wheelfit in a virtual environment of its own",
        )


def affects_wheelfit(
    environment: Environment, added: Iterable[UnpackedWheel], removed: Iterable[Installed]
) -> bool:
    """Return whether a change affects modules that this process has imported or may import."""
    if not _is_own_environment(environment):
        return False
    return any(entry.name in _NAMES for entry in removed) or any(
        _top_level_module(name) in _PACKAGES for wheel in added for name in wheel.names()
    )


def _is_own_environment(environment: Environment) -> bool:
    """Return whether imports of wheelfit may find modules of an environment."""
    own = {os.path.realpath(folder) for folder in sys.path if folder}
    for package in (wheelfit, wheelfit_runtime):
        own.add(os.path.realpath(os.path.dirname(package.__path__[0])))  # noqa: PTH120
    return any(os.path.realpath(folder) in own for folder in environment.schemes.libraries())


def _top_level_module(name: str) -> str:
    """Return the module or package that a file of a wheel belongs to."""
    parts = name.split("/")
    if parts[0].endswith(".data") and parts[1:2] in (["purelib"], ["platlib"]):
        parts = parts[2:]
    return parts[0].partition(".")[0] if parts else ""


def preload_modules(environment: Environment) -> Callable[[], None]:
    """Import all modules that may be needed, and refuse imports from an environment from then on.

    :return: a function that allows imports again, for use after an error. It does nothing if the
        environment still has a change that was neither completed nor undone.
    """
    for name in _modules_to_preload():
        with suppress(ImportError):
            import_module(name)
    refusal = _ImportRefusal([str(folder) for folder in environment.schemes.libraries()])
    sys.meta_path.insert(0, refusal)

    def allow_imports() -> None:
        if not EnvironmentFolders.of(environment.schemes).is_changing:
            sys.meta_path.remove(refusal)

    return allow_imports


def _modules_to_preload() -> Iterator[str]:
    """Yield the names of modules that may be needed once an environment is changed."""
    yield from ("packaging.requirements", "packaging.markers", "packaging.metadata")
    top = wheelfit.__path__[0]
    for layer in _LAYERS:
        for folder, folders, files in os.walk(os.path.join(top, layer)):  # noqa: PTH118
            folders[:] = [
                name for name in folders if name not in _EXCLUDED_FOLDERS and name[0] != "_"
            ]
            inside = os.path.relpath(folder, top).replace(os.sep, ".")
            for name in files:
                if name.endswith(".py") and name[0] != "_":
                    yield f"wheelfit.{inside}.{name[:-3]}"


class _ImportRefusal:
    """An import hook that refuses modules of some folders."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(os.path.join(folder, "") for folder in folders)  # noqa: PTH118

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise if a module is in one of the folders; other hooks find all others."""
        spec = PathFinder.find_spec(name, path, target)
        places = [spec.origin or "", *(spec.submodule_search_locations or ())] if spec else []
        if any(place.startswith(self._folders) for place in places):
            raise ImportError(f"{name} lies in an environment that is being changed", name=name)
        return None
