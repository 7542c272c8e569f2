"""Hostile plugins of PEP 850 in wheels that are made on the spot."""

from collections.abc import Mapping
from pathlib import Path

from hostile import plugin_kinds

from wheelfit.testing.plugins import Plugin

HOSTILE: Mapping[str, str] = {
    name: plugin.__doc__ or "" for name, plugin in plugin_kinds.KINDS.items()
}
"""What each kind of hostile plugin does, by its name."""


def hostile(kind: str) -> Plugin:
    """Make a plugin that means harm, or is as broken as plugins can be.

    Its namespace is ``hostile``. Some look at the variable ``HOSTILE_PROVIDER_FORCE_TARGET``,
    which reaches plugins as every override of a provider does.

    :param kind: a key of ``HOSTILE``.
    """
    if kind not in HOSTILE:
        raise ValueError(f"there is no hostile plugin {kind!r}; known are {', '.join(HOSTILE)}")
    package = f"hostile_{kind}"
    files = {f"{package}.py": Path(plugin_kinds.__file__).read_text("utf-8")}
    if kind == "starts_up":
        files[f"{package}.pth"] = f"import {package}; {package}.at_start()\n"
    return Plugin(package.replace("_", "-"), "1.0.0", "hostile", f"{package}:{kind}", files)
