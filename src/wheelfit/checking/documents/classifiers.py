"""Checks of a wheel's classifiers; the one importer of trove-classifiers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.documents.spelling import meant_by
from wheelfit.checking.findings import Correction, some_of
from wheelfit.core.strict_json import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.checking.findings import CheckedFile, Finding

_PRIVATE = "Private ::"
_MOST_COMPARED = 20
"""Unknown classifiers that are compared with known ones, which takes a millisecond each."""


def classifier_findings(
    classifiers: Sequence[str], place: CheckedFile, *steps: str
) -> Iterator[Finding]:
    """Yield classifiers that the public registry does not have, or has deprecated.

    Without trove-classifiers, of the extra ``build``, they are not checked.

    :param steps: the path of their list in a project file; METADATA has none.
    """
    if not classifiers:
        return
    try:
        import trove_classifiers as known
    except ImportError:
        return
    deprecated = known.deprecated_classifiers
    paths = {
        one: path_of(*steps, number) if steps else "" for number, one in enumerate(classifiers)
    }
    unclear: list[str] = []
    compared = 0
    for one, path in paths.items():
        if one in deprecated:
            instead = deprecated[one]
            message = (
                f"{one!r} is deprecated; {some_of(map(repr, instead)) or 'nothing'} takes its place"
            )
            sure = Correction(json.dumps(instead[0])) if len(instead) == 1 else None
            yield place.found(checks.DEPRECATED_CLASSIFIER, message, path=path, correction=sure)
        # Classifiers that keep a wheel from being published by mistake are meant to be unknown.
        elif one not in known.classifiers and not one.startswith(_PRIVATE):
            compared += 1
            meant = meant_by(one, known.classifiers) if compared <= _MOST_COMPARED else None
            if meant is None and not path:
                unclear.append(one)
                continue
            yield place.found(
                checks.UNKNOWN_CLASSIFIER,
                f"there is no {one!r}",
                path=path,
                correction=Correction(json.dumps(meant)) if meant else None,
                remedy=f"write {meant!r}" if meant else "",
            )
    if unclear:
        yield place.found(checks.UNKNOWN_CLASSIFIER, f"there is no {some_of(map(repr, unclear))}")
