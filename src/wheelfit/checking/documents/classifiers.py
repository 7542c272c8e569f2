"""Checks of a wheel's classifiers; only this module imports trove-classifiers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.documents.spelling import likely_meant
from wheelfit.checking.findings import Correction, Finding, Location, listed_briefly
from wheelfit.core.strict_json import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PRIVATE = "Private ::"
_MAX_COMPARED = 20
"""Unknown classifiers that are compared with the known ones: one takes a millisecond."""


def classifier_findings(
    classifiers: Sequence[str], location: Location, *steps: str
) -> Iterator[Finding]:
    """Yield findings about unknown and deprecated classifiers.

    If trove-classifiers (extra ``build``) is not installed, nothing is checked.

    :param steps: the keys that lead to the list in a project file; none for METADATA.
    """
    if not classifiers:
        return
    try:
        import trove_classifiers
    except ImportError:
        return
    deprecated = trove_classifiers.deprecated_classifiers
    paths = {
        classifier: path_of(*steps, number) if steps else ""
        for number, classifier in enumerate(classifiers)
    }
    without_path: list[str] = []
    compared = 0
    for classifier, path in paths.items():
        if classifier in deprecated:
            successors = deprecated[classifier]
            replacements = listed_briefly(map(repr, successors))
            remedy = f"use {replacements}" if successors else "nothing replaces it"
            message = f"{classifier!r} is deprecated; {remedy}"
            correction = Correction(json.dumps(successors[0])) if len(successors) == 1 else None
            yield location.finding(
                checks.DEPRECATED_CLASSIFIER, message, path=path, correction=correction
            )
        # Indexes refuse `Private ::` classifiers, which prevents an accidental upload.
        elif classifier not in trove_classifiers.classifiers and not classifier.startswith(
            _PRIVATE
        ):
            compared += 1
            suggestion = (
                likely_meant(classifier, trove_classifiers.classifiers)
                if compared <= _MAX_COMPARED
                else None
            )
            if suggestion is None and not path:
                without_path.append(classifier)
                continue
            yield location.finding(
                checks.UNKNOWN_CLASSIFIER,
                f"{classifier!r} is not a known classifier",
                path=path,
                correction=Correction(json.dumps(suggestion)) if suggestion else None,
                remedy=f"write {suggestion!r}" if suggestion else "",
            )
    if without_path:
        yield location.finding(
            checks.UNKNOWN_CLASSIFIER,
            f"not a known classifier: {listed_briefly(map(repr, without_path))}",
        )
