"""Variants that follow from what the binaries of wheels show (B-60)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wheelfit.cli.output import Output
    from wheelfit.core.labels import Label
    from wheelfit.core.properties import Property
    from wheelfit.platforms.families.nvidia.facts import Capability
    from wheelfit.wheels.binaries.properties import FoundProperties

_SAID = 10
"""Notes of one wheel that are told without ``--verbose``."""


def shown_variants(
    wheels: Sequence[Path], arguments: Namespace, output: Output
) -> Iterator[tuple[Path, tuple[Label, bytes]]]:
    """Yield for each wheel the variant that it is, and its document.

    Namespaces that neither a table nor an option knows get the provider that wheelfit knows.

    :param wheels: the wheels.
    :param arguments: with the options of this module and of `wheelfit.cli.wheel_asked`.
    :param output: told what the binaries leave open.
    :raises FileProblem: a wheel shows nothing, or cannot be read.
    :raises NeedsExtra: what reads binaries is not installed.
    :raises UsageError: --null is given.
    """
    from argparse import Namespace

    from wheelfit.cli.wheel_asked import asked_variant, open_table
    from wheelfit.core.properties import parse_property
    from wheelfit.errors import FileProblem, UsageError

    if arguments.null:
        raise UsageError("--null has no properties, --from-binary finds some")
    given = [parse_property(text) for text in arguments.property]
    kept = {(one.namespace, one.feature) for one in given}
    bound = _lower_bound(given)
    for wheel in wheels:
        found = _shown(wheel, ptx=not arguments.no_ptx, bound=bound)
        # Of thousands of libraries nobody reads a line each.
        for note in found.notes[:_SAID] if output.verbosity < 1 else found.notes:
            output.say(f"{wheel.name}: {note}")
        if output.verbosity < 1 and len(found.notes) > _SAID:
            output.say(f"{wheel.name}: {len(found.notes) - _SAID} more notes (--verbose)")
        shown = [one for one in found.properties if (one.namespace, one.feature) not in kept]
        own = Namespace(**vars(arguments))
        own.property = [*arguments.property, *map(str, shown)]
        own.provider = list(arguments.provider)
        known = open_table(own).providers
        own.provider += sorted({one.namespace for one in shown} - set(known))
        asked = asked_variant(own, open_table(own), output)
        if asked is None:
            raise FileProblem(
                "its binaries show no property",
                where=str(wheel),
                hint="wheelfit wheel inspect shows what they say; name properties with --property",
            )
        yield wheel, asked


_VERSION = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")


def _lower_bound(given: Sequence[Property]) -> Capability | None:
    """Return the lower bound of the driver that properties state; None: they state none."""
    from wheelfit.platforms.families.nvidia.facts import Capability

    bounds = []
    for one in given:
        match = _VERSION.fullmatch(one.value)
        if (one.namespace, one.feature) == ("nvidia", "cuda_version_lower_bound") and match:
            bounds.append(Capability(int(match[1]), int(match[2] or 0)))
    return min(bounds, default=None)


def _shown(wheel: Path, *, ptx: bool, bound: Capability | None) -> FoundProperties:
    from wheelfit.wheels.archive import WheelArchive
    from wheelfit.wheels.binaries.properties import properties_of
    from wheelfit.wheels.binaries.reading import binaries_of

    with WheelArchive(wheel) as archive:
        return properties_of(binaries_of(archive), ptx=ptx, bound=bound)
