"""Check the classifiers of a wheel; the one importer of trove-classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import some_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.checking.findings import CheckedFile, Finding

_PRIVATE = "Private ::"


def classifier_findings(classifiers: Sequence[str], place: CheckedFile) -> Iterator[Finding]:
    """Yield classifiers that the public registry does not know, or not any more.

    Without trove-classifiers, of the extra ``build``, nothing is known of them.

    :param classifiers: of METADATA, as written.
    """
    if not classifiers:
        return
    try:
        import trove_classifiers as known  # noqa: PLC0415  # an extra
    except ImportError:
        return
    deprecated = known.deprecated_classifiers
    unknown = [
        one
        for one in dict.fromkeys(classifiers)
        # Classifiers that keep a wheel from being published by mistake are meant to be unknown.
        if one not in known.classifiers and one not in deprecated and not one.startswith(_PRIVATE)
    ]
    if unknown:
        yield place.found(checks.UNKNOWN_CLASSIFIER, f"there is no {some_of(map(repr, unknown))}")
    for one in dict.fromkeys(classifiers):
        if one in deprecated:
            instead = some_of(map(repr, deprecated[one])) or "nothing"
            message = f"{one!r} is deprecated; {instead} takes its place"
            yield place.found(checks.DEPRECATED_CLASSIFIER, message)
