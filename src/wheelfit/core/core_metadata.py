"""Core metadata: the content of a wheel's ``METADATA`` about the project and its requirements.

Only fields for installing and exporting are read, so that future fields and mistakes in unused
fields do no harm. The header is read line by line, as the standard library's e-mail parser does, so
that editing it, to remove variant markers, keeps the bytes of other lines (B-42).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.core.digests import sha256_of
from wheelfit.core.requirements import Requirement, marker_start, parse_requirement
from wheelfit.core.versions import parse_specifiers, parse_version
from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

    from wheelfit.core.markers import VariantContext

_NEWEST_MAJOR = {"Metadata-Version": 2, "Wheel-Version": 1}
"""The newest major version of core metadata that is read, and that of the wheel's format, which
wheels from 2.0 on state here as well (PEP 777); a newer one must be refused."""
_FIELDS_READ = frozenset(
    {
        "classifier",
        "license",
        "license-expression",
        "license-file",
        "metadata-version",
        "name",
        "provides-extra",
        "requires-dist",
        "requires-python",
        "version",
        "wheel-version",
    }
)


class LicenseFields(Struct, frozen=True):
    """The license fields of metadata, as written (PEP 639 and before)."""

    expression: str = ""
    """``License-Expression``; empty: none."""
    text: str = ""
    """``License``: a name, or all of the text; empty: none."""
    classifiers: tuple[str, ...] = ()
    """Those that begin with ``License ::``."""
    files: tuple[str, ...] = ()
    """``License-File``: paths in the wheel."""


NO_LICENSE = LicenseFields()


class CoreMetadata(Struct, frozen=True):
    """The core metadata of one wheel."""

    name: NormalizedName
    version: Version
    requires_python: SpecifierSet | None = None
    """The required Python versions; None if not stated."""
    classifiers: tuple[str, ...] = ()
    """As written, unchecked."""
    requires_texts: tuple[str, ...] = ()
    """The dependencies as written, unfolded, in order."""
    provides_extra: frozenset[NormalizedName] = frozenset()
    license: LicenseFields = NO_LICENSE
    where: str = ""
    """The wheel, for errors."""
    digest: bytes = b""
    """SHA-256 of all of the metadata; empty if it was not read from a file. Ignored in
    comparisons."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoreMetadata) and astuple(self)[:-1] == astuple(other)[:-1]

    def __hash__(self) -> int:
        return hash((self.name, self.version, self.where))  # one step, however many dependencies

    @property
    def requires(self) -> tuple[Requirement, ...]:
        """The dependencies, in order; variant markers are allowed.

        They are parsed on access, so that a release whose dependencies are never needed cannot fail
        because of them.

        :raises InvalidRequirement: one of them cannot be read; names the wheel.
        """
        return tuple(
            parse_requirement(text, allow_variant_markers=True, where=self.where)
            for text in self.requires_texts
        )


_SINGLE_FIELDS = ("Metadata-Version", "Name", "Version", "Requires-Python")
"""Fields by which a wheel is chosen, each allowed once."""


def repeated_fields(data: bytes) -> tuple[str, ...]:
    r"""Return the repeated fields among those allowed only once (B-34).

    >>> repeated_fields(b"Name: some\nVersion: 1\nversion: 2\n")
    ('Version',)
    """
    names = [name for name, _, _, _ in _headers(data)]
    return tuple(name for name in _SINGLE_FIELDS if names.count(name.lower()) > 1)


def read_metadata(data: bytes, where: str) -> CoreMetadata:
    """Read the core metadata of a wheel.

    :raises InvalidWheel: there is no name, or no version that follows the rules.
    """
    fields: dict[str, list[str]] = {}
    for name, value, _, _ in _headers(data):
        if name in _FIELDS_READ:
            fields.setdefault(name, []).append(_text(value))
    for field_name, newest in _NEWEST_MAJOR.items():
        format_version = _first_value(fields, field_name.lower())
        major = format_version.partition(".")[0]
        is_number = major.isascii() and major.isdecimal()
        # By length first: Python does not convert thousands of digits.
        if is_number and (len(major) > 1 or int(major) > newest):
            raise InvalidWheel(
                f"the metadata has {field_name} {format_version[:20]}, which this version of "
                "wheelfit does not read",
                where=where,
            )
    project = _first_value(fields, "name")
    if not project:
        raise InvalidWheel("the metadata has no Name", where=where)
    text = _first_value(fields, "version")
    if not text:
        raise InvalidWheel("the metadata has no Version", where=where)
    try:
        version = parse_version(text)
    except InvalidVersion:
        raise InvalidWheel(f"the metadata has the invalid Version {text!r}", where=where) from None
    requires_python = None
    if specifiers := _first_value(fields, "requires-python"):
        # As in pip, an invalid one is ignored: old releases with one were installable.
        with suppress(InvalidSpecifier):
            requires_python = parse_specifiers(specifiers)
    return CoreMetadata(
        name=canonicalize_name(project),
        version=version,
        requires_python=requires_python,
        classifiers=tuple(fields.get("classifier", ())),
        requires_texts=tuple(fields.get("requires-dist", ())),
        provides_extra=frozenset(
            canonicalize_name(extra) for extra in fields.get("provides-extra", ())
        ),
        license=LicenseFields(
            _first_value(fields, "license-expression"),
            _first_value(fields, "license"),
            tuple(text for text in fields.get("classifier", ()) if text.startswith("License ::")),
            tuple(fields.get("license-file", ())),
        ),
        where=where,
        digest=sha256_of(data),
    )


def without_variant_markers(
    data: bytes,
    context: VariantContext,
    *,
    where: str | None = None,
    filtered: bool = True,
    report_removed: Callable[[str], None] = lambda _text: None,
) -> bytes:
    """Resolve the variant markers in core metadata (F-107, B-40, B-41).

    Dependencies whose marker is false and parts of markers that are true are removed; lines without
    a variant marker and the description keep their bytes (B-42). Tools without support for variant
    markers can read the result.

    :param report_removed: called with each removed dependency, as written.
    :raises InvalidRequirement: a dependency with a possible variant marker cannot be read.
    """
    if b"variant_" not in data:
        return data

    def resolved(requirement: str) -> str | None:
        if "variant_" not in requirement:
            return requirement
        text = resolve_requirement(requirement, context, where=where, filtered=filtered)
        if text is None:
            report_removed(requirement)
        return text

    return edit_metadata(data, changed=resolved)


def resolve_requirement(
    text: str, context: VariantContext, *, where: str | None = None, filtered: bool = True
) -> str | None:
    """Resolve the variant markers of one dependency (F-107, B-40, B-41).

    >>> from wheelfit.core.markers import VariantContext
    >>> resolve_requirement("a; variant_label != 'x'", VariantContext.PLAIN)
    'a'

    :return: the resolved text; None if the marker is false.
    :raises InvalidRequirement: it cannot be read.
    """
    marker = parse_requirement(text, allow_variant_markers=True, where=where).marker
    if marker is None or not marker.uses_variants:
        return text  # "variant_" is in a URL or in a string
    rest = marker.resolve_variants(context, filtered=filtered)
    if rest is False:
        return None
    start = text[: marker_start(text)]
    return start.rstrip(" \t") if rest is True else f"{start}; {rest}"


def edit_metadata(
    data: bytes,
    *,
    name: str | None = None,
    version: str | None = None,
    changed: Callable[[str], str | None] = lambda text: text,
    added: Iterable[str] = (),
) -> bytes:
    r"""Change name, version or dependencies in core metadata, line by line (B-42).

    Every other line keeps its bytes, the description included.

    >>> edit_metadata(b"Name: a-cu12\nRequires-Dist: b\n\nText\n", name="a", added=["c"])
    b'Name: a\nRequires-Dist: b\nRequires-Dist: c\n\nText\n'

    :param name: the new name; None: it stays.
    :param version: the new version; None: it stays.
    :param changed: returns the replacement of a dependency, as written and unfolded; None removes
        it.
    :param added: dependencies added after those that stay, or in place of the first removed one,
        each on one line.
    """
    new = {"name": name, "version": version}
    result = bytearray()
    done, end, line_end = 0, 0, b"\n"
    insert_at: int | None = None
    for field_name, value, first, last in _headers(data):
        end, line_end = last.end(), first["end"] or line_end
        is_dependency = field_name == "requires-dist"
        old = _text(value) if is_dependency else ""
        # Every name and version is replaced, since readers differ in which of several counts.
        text = changed(old) if is_dependency else new.get(field_name)
        if text == old and is_dependency:
            result += data[done:end]
        elif text is not None:
            result += data[done : first.start(2)]
            result += text.encode("utf-8", "surrogateescape") + last["end"]
        elif is_dependency:
            result += data[done : first.start()]
            if result.endswith(b"\r") and data.startswith(b"\n", end):
                result += b"\n"  # else two line ends would become one, and lengthen the header
        else:
            continue
        done = end
        if is_dependency and (text is not None or insert_at is None):
            insert_at = len(result)
    if insert_at is None:  # there are no dependencies yet
        result += data[done:end]
        done, insert_at = end, len(result)
    lines = b"".join(
        b"Requires-Dist: " + text.encode("utf-8", "surrogateescape") + line_end for text in added
    )
    if lines and insert_at and not result[:insert_at].endswith((b"\n", b"\r")):
        lines = line_end + lines
    return bytes(result[:insert_at] + lines + result[insert_at:] + data[done:])


_FIELD = pattern(rb"([!-9;-~]++):[ \t]*+([^\r\n]*+)(?P<end>\r\n|\r|\n|\Z)")
_LINE = pattern(rb"[^\r\n]*+(?P<end>\r\n|\r|\n|\Z)")
# Blanks are matched from their first one only: there may be millions.
_FOLD = pattern(rb"(?:(?<![ \t])[ \t]++)?+(?:\r\n|\r|\n)[ \t]++")


def _headers(data: bytes) -> Iterator[tuple[str, bytes, re.Match[bytes], re.Match[bytes]]]:
    """Yield each field: its name in lower case, its value unfolded, its first and last line.

    The header ends at the first line that is no field.
    """
    position = 0
    while position < len(data) and (first := _FIELD.match(data, position)) is not None:
        last, value = first, first[2]
        while data[last.end() : last.end() + 1] in {b" ", b"\t"}:
            following = _LINE.match(data, last.end())
            if following is None:  # pragma: no cover - the pattern matches any line
                break
            last = following
        if last is not first:
            value = _FOLD.sub(b" ", data[first.start(2) : last.start("end")])
        yield first[1].decode("ascii").lower(), value.strip(b" \t"), first, last
        position = last.end()


def _text(value: bytes) -> str:
    """Return the text of a value; bytes that are not UTF-8 become surrogates."""
    return value.decode("utf-8", "surrogateescape")


def _first_value(fields: dict[str, list[str]], name: str) -> str:
    """Return the first value of a field that may occur once."""
    return fields.get(name, [""])[0].strip()
