"""A script that describes the interpreter that runs it, as JSON.

It is started as ``python -I -S -B interpreter.py [FOLDER]``, where FOLDER is the ``packaging``
package of the caller; without it, tags are left out. Nothing else becomes importable, so that a
packaging of the target environment is not used. ``-S`` prevents the ``.pth`` files and
``sitecustomize`` of the environment from running; the rest of the start-up is done here. To
describe the running interpreter, wheelfit imports this module instead.

It needs CPython 3.10, as packaging does; older ones print only their version.
"""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache

MARK = "wheelfit-interpreter:"
"""The start of the line with the answer; start-up files may print other lines."""
PREFIX = "@prefix@"
"""The placeholder for the folder given with ``--prefix`` in ``prefix_paths``."""

OLDEST = (3, 10)

# The variables of the paths of a scheme (pip replaces the same).
_SCHEME_BASES = (
    "installed_base",
    "base",
    "installed_platbase",
    "platbase",
    "prefix",
    "exec_prefix",
)


def describe(*, system_site: bool = False, tags: bool = True) -> dict[str, object]:
    """Return the facts about the running interpreter for an installer.

    The tags are objects of `packaging.tags`, everything else is plain data.

    :param system_site: whether packages of the base interpreter are visible in a virtual
        environment.
    :param tags: whether to describe the supported wheel tags, which takes ``packaging``.
    """
    import site  # after the check of the version
    import sysconfig

    virtual = sys.prefix != sys.base_prefix
    paths = sysconfig.get_paths()
    variables = dict.fromkeys(_SCHEME_BASES, PREFIX)
    prefix_paths = sysconfig.get_paths(_prefix_scheme(sysconfig), variables)
    if virtual:
        # Where pip puts headers in a virtual environment; the scheme itself names the base.
        tail = os.path.join("include", "site", "python%d.%d" % sys.version_info[:2])  # noqa: PTH118, UP031
        paths["include"] = os.path.join(sys.prefix, tail)  # noqa: PTH118
        prefix_paths["include"] = os.path.join(PREFIX, tail)  # noqa: PTH118
    stdlib = sysconfig.get_path("stdlib")
    return {
        "version": list(sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "cache_tag": sys.implementation.cache_tag,
        "executable": sys.executable,
        "prefix": sys.prefix,
        "virtual": virtual,
        "stdlib": stdlib,
        "paths": paths,
        "prefix_paths": prefix_paths,
        "site_packages": _site_packages(site, system_site),
        "launcher": _launcher(),
        "externally_managed": None if virtual else _externally_managed(stdlib),
        "environment": marker_values(),
        "tags": _tags() if tags else (),
    }


@lru_cache(maxsize=1)  # programs open many environments, and a process has one interpreter
def _tags() -> tuple[object, ...]:
    from packaging.tags import sys_tags

    return tuple(sys_tags())


def _enter_virtual_environment() -> bool:
    """Set the prefixes of a virtual environment, as `site` would, which ``-S`` prevents.

    Newer versions of Python set them without `site`.

    :return: whether packages of the base interpreter are visible too.
    """
    bin_folder = os.path.dirname(os.path.abspath(sys.executable))  # noqa: PTH100, PTH120
    for folder in (bin_folder, os.path.dirname(bin_folder)):  # noqa: PTH120
        try:
            path = os.path.join(folder, "pyvenv.cfg")  # noqa: PTH118
            with open(path, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
                lines = [line.partition("=") for line in stream if "=" in line]
        except OSError:
            continue
        settings = {key.strip().lower(): value.strip() for key, _, value in lines}
        if "home" in settings:
            sys._home = settings["home"]  # type: ignore[attr-defined]  # noqa: SLF001 - as site does
        sys.prefix = sys.exec_prefix = os.path.dirname(bin_folder)  # noqa: PTH120
        return settings.get("include-system-site-packages", "true").lower() == "true"
    return False


def _site_packages(site, system_site) -> list[str]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Return the site-packages folders, in the order in which Python searches them."""
    if not sys.flags.no_site:
        return list(site.getsitepackages())
    prefixes = [sys.prefix, sys.exec_prefix]
    if system_site:
        prefixes += [sys.base_prefix, sys.base_exec_prefix]
    return list(site.getsitepackages(prefixes))


def marker_values() -> dict[str, str]:
    """Return the variables of environment markers; packaging takes 7 ms longer for the same."""
    import platform

    version = sys.implementation.version
    implementation = "%d.%d.%d" % version[:3]  # noqa: UP031
    if version.releaselevel != "final":
        implementation += version.releaselevel[0] + str(version.serial)
    return {
        "implementation_name": sys.implementation.name,
        "implementation_version": implementation,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    }


def _prefix_scheme(sysconfig) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
    # Debian's scheme for /usr/local and that of macOS frameworks fit only Python's own prefix.
    name = str(sysconfig.get_preferred_scheme("prefix"))
    return "posix_prefix" if name in ("posix_local", "osx_framework_library") else name


def _launcher() -> str:
    """Return the kind of script launcher, by its name in PyPA's ``installer``."""
    if os.name != "nt":
        return "posix"
    version = sys.version.lower()
    if "amd64" in version:
        return "win-amd64"
    if "(arm64)" in version:
        return "win-arm64"
    if "(arm)" in version:
        return "win-arm"
    return "win-ia32"


def _externally_managed(stdlib: str) -> str | None:
    """Return the text of EXTERNALLY-MANAGED (PEP 668); None if there is no such file."""
    try:
        path = os.path.join(stdlib, "EXTERNALLY-MANAGED")  # noqa: PTH118
        with open(path, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
            return stream.read()
    except OSError:
        return None


def _load_packaging(folder: str) -> None:
    """Import one folder as ``packaging``, without making its siblings importable."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(
        "packaging",
        os.path.join(folder, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[folder],
    )
    if spec is None or spec.loader is None:
        raise ImportError(folder)
    module = module_from_spec(spec)
    sys.modules["packaging"] = module
    spec.loader.exec_module(module)


def _main() -> None:
    if sys.version_info[:2] < OLDEST:
        answer: dict[str, object] = {"version": list(sys.version_info[:3])}
    else:
        system_site = _enter_virtual_environment()
        tags = len(sys.argv) > 1
        if tags:
            _load_packaging(sys.argv[1])
        answer = describe(system_site=system_site, tags=tags)
    sys.stdout.write("\n" + MARK + json.dumps(answer, default=_tag_parts) + "\n")


def _tag_parts(tag) -> list[str]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return [tag.interpreter, tag.abi, tag.platform]


if __name__ == "__main__":
    _main()
