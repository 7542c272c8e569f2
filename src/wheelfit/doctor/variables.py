"""Which environment variables matter, what each does, and what a device mask means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.sources.urls import redact
from wheelfit_runtime.platforms import families

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MASKS: Mapping[str, str] = MappingProxyType(
    {mask: family.devices for family in families.accelerators() for mask in family.masks}
)
"""Variables with a list of devices that programs may see, and of what kind."""

_MEANING: Mapping[str, str] = MappingProxyType(
    {
        **{
            name: meaning
            for family in families.every()
            for name, meaning in (*family.homes.items(), *family.variables.items())
        },
        "LD_LIBRARY_PATH": "folders in which libraries are looked for first",
        "LD_PRELOAD": "libraries loaded into every program",
        "DYLD_LIBRARY_PATH": "folders in which libraries are looked for first",
        "DYLD_INSERT_LIBRARIES": "libraries loaded into every program",
        "PYTHONPATH": "folders in which modules are looked for first",
        "PYTHONHOME": "where every Python takes its standard library from",
        "PYTHONNOUSERSITE": "packages of the user's own folder are not seen",
        "PYTHONUSERBASE": "where the user's own packages lie",
        "VIRTUAL_ENV": "the active virtual environment",
        "CONDA_PREFIX": "the active conda environment",
        "KMP_DUPLICATE_LIB_OK": "silences the check for several OpenMP runtimes",
        "VARIANT_ABI_DEPENDENCY": "versions of packages that builds must fit",
        "UV_TORCH_BACKEND": "which PyTorch index uv uses",
    }
)
_PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "WHEELFIT_OVERRIDE_": "meant to replace what is detected",
        **{
            prefix: meaning
            for family in families.every()
            for prefix, meaning in family.override_prefixes.items()
        },
        "WHEELFIT_": "a setting of wheelfit",
        "PIP_": "a setting of pip",
        "UV_": "a setting of uv",
        "CONDA_OVERRIDE_": "replaces what conda detects; wheelfit does not read it",
    }
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|USERNAME", re.IGNORECASE)
_DEVICE = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]*")
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Variable:
    """Hold one variable as it may be shown."""

    name: str
    value: str
    """Without credentials."""
    meaning: str
    """What it does, a phrase."""


def variables_in(
    environ: Mapping[str, str], counts: Mapping[str, int] | None = None
) -> tuple[Variable, ...]:
    """Return the variables that matter, by name; credentials are left out.

    :param counts: how many devices there are, by mask, as far as known.
    """
    return tuple(_known(environ, counts or {}))


def _known(environ: Mapping[str, str], counts: Mapping[str, int]) -> Iterator[Variable]:
    for name in sorted(environ):
        meaning = _MEANING.get(name) or next(
            (words for prefix, words in _PREFIXES.items() if name.startswith(prefix)), None
        )
        if name in MASKS:
            meaning = f"programs see {read_mask(environ[name], counts.get(name)).words(name)}"
        if meaning is not None:
            hidden = _SECRET.search(name) and environ[name]
            yield Variable(name, "(not shown)" if hidden else redact(environ[name]), meaning)


@dataclass(frozen=True, slots=True)
class Mask:
    """Hold what a list of visible devices means (P-89)."""

    seen: tuple[str, ...]
    """The devices that programs see, in the order in which they number them from 0."""
    stopped_at: str | None = None
    """The first entry that names no device; neither it nor those after it are seen."""

    def words(self, name: str) -> str:
        """Say what programs see."""
        if not self.seen:
            return f"no {MASKS[name]}"
        return f"{MASKS[name]} {', '.join(self.seen)} only"


def read_mask(text: str, count: int | None = None) -> Mask:
    """Read a mask: it ends at the first entry that names no device, and empty means none (P-89).

    >>> read_mask("0,2,-1,1")
    Mask(seen=('0', '2'), stopped_at='-1')

    :param count: how many devices there are; None: unknown.
    """
    seen: list[str] = []
    for entry in _entries(text):
        if not _is_device(entry, count):
            return Mask(tuple(seen), entry)
        seen.append(entry)
    return Mask(tuple(seen))


def _entries(text: str) -> Iterable[str]:
    return () if not text.strip() else (entry.strip() for entry in text.split(","))


def _is_device(entry: str, count: int | None) -> bool:
    if _DEVICE.fullmatch(entry):
        return True
    if not _NUMBER.fullmatch(entry):
        return False
    return int(entry) >= 0 and (count is None or int(entry) < count)
