"""What stays in an environment though a lock does not name it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.core.markers import VariantContext
from wheelfit.installation.installed import by_name
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.installation.installed import Installed

_INSTALLERS = tuple(map(canonicalize_name, ("pip", "setuptools", "wheel")))
_SELF = canonicalize_name("wheelfit")


def spared(
    installed: Iterable[Installed], environment: Mapping[str, str]
) -> frozenset[NormalizedName]:
    """Return what an environment is managed with: pip and what belongs to it, and wheelfit.

    With wheelfit goes what it needs, or it would cut off the branch it sits on.

    :param installed: what is there.
    :param environment: values of the marker variables.
    """
    there = by_name(installed)
    found = set(_INSTALLERS)
    pending = [_SELF]
    while pending:
        name = pending.pop()
        if name in found or name not in there:
            continue
        found.add(name)
        with suppress(WheelfitError):  # what cannot be read needs nothing that is known
            pending += [
                requirement.name
                for requirement in there[name].metadata().requires
                if requirement.applies(environment, "", VariantContext.PLAIN)
            ]
    return frozenset(found)
