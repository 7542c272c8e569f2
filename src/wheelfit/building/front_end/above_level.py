"""Notes on a wheel just built whose code needs a newer processor than the wheel claims (P-102)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.errors import NeedsExtra
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.instructions import counted_binaries
from wheelfit.wheels.binaries.unguarded import claimed_level, unguarded_code

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wheelfit.core.properties import PropertySet
    from wheelfit.wheels.zip_directory import Member

_MOST_BYTES = 8 << 20
"""Of all binaries that are looked at: they take some seconds. `wheelfit check` looks at all."""


def notes_above_level(path: Path, properties: PropertySet) -> Iterator[str]:
    """Yield what runs on any processor and needs a higher level than a wheel claims.

    Without the extra for it nothing is looked at.

    :raises InvalidWheel: a member is damaged.
    :raises FileProblem: there is no room for what is unpacked.
    """
    features = {
        feature.name: values
        for feature, values in properties.features()
        if feature.namespace == "x86_64"
    }
    claimed = claimed_level(features)
    if claimed is None:
        return
    left = _MOST_BYTES
    is_whole = True

    def is_wanted(member: Member) -> bool:
        nonlocal left, is_whole
        if member.size > left or ".libs/" in member.name:
            is_whole = False
            return False
        left -= member.size
        return True

    try:
        with WheelArchive(path) as archive:
            found = counted_binaries(archive, is_wanted=is_wanted)
    except NeedsExtra:
        return
    standing = f"claims {claimed}" if features else "claims no level"
    for one in unguarded_code(found, claimed, is_whole=is_whole):
        yield (
            f"{one}; the wheel {standing}, and an older processor ends it with an illegal "
            "instruction: look for -march=native, and its like, in the project"
        )
