"""File names of wheels, with or without a label, and of index files.

A wheel is named ``{distribution}-{version}[-{build}]-{python}-{abi}-{platform}[-{label}].whl``. A
Python tag never starts with a digit and a build tag always does (F-11), so the number of parts and
the first character of the third part show which optional parts there are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct
from msgspec.structs import replace
from packaging.tags import InvalidTag, Tag, TooManyTagsError, parse_tag
from packaging.utils import BuildTag, NormalizedName, canonicalize_name, parse_sdist_filename

from wheelfit.core.labels import Label, is_label
from wheelfit.core.strict_json import shortened
from wheelfit.core.versions import has_too_many_digits, version_of
from wheelfit.errors import InvalidFilename
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from packaging.version import Version

    Release = tuple[NormalizedName, Version]

_SUFFIX = ".whl"
_NEWER_SUFFIX = ".whlx"
_INDEX_SUFFIX = "-variants.json"
NEWER_FORMAT = "its wheel format is 2.0 or newer, and this version of wheelfit reads 1.x"
"""The reason a wheel of a newer format is not used (PEP 777)."""
_MAX_LENGTH = 255
"""Bytes of a file name on common file systems (F-3)."""
_MAX_TAGS = 1024
"""Tags of one compressed set; real ones have fewer than a hundred."""

_TEXT = pattern(r"[A-Za-z0-9_.+!-]+")
_NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._]*[A-Za-z0-9])?")
_BUILD = pattern(r"([0-9]+)([0-9A-Za-z_.]*)")


class WheelFilename(Struct, frozen=True):
    """The parts of a wheel's file name, as `parse_wheel_filename` returns them.

    ``str()`` returns the file name with normalised distribution and version, and all else
    unchanged (F-17).
    """

    name: NormalizedName
    version: Version
    build: BuildTag
    """``()``, or the number and the rest; these sort by F-14."""
    tags: frozenset[Tag]
    """All tags of the compressed set."""
    label: Label | None
    """The variant label; None for a plain wheel (F-10)."""
    text: str
    """The file name as it was parsed."""

    @property
    def is_variant(self) -> bool:
        """Whether the name has a label (F-10)."""
        return self.label is not None

    @property
    def plain(self) -> str:
        """The file name without its label."""
        if self.label is None:
            return self.text
        stem, dot, suffix = self.text.rpartition(".")
        return f"{stem[: -len(self.label) - 1]}{dot}{suffix}"

    @property
    def is_newer_format(self) -> bool:
        """Whether the wheel has format 2.0 or newer (PEP 777), which is not supported."""
        return is_newer_format(self.text)

    def __str__(self) -> str:
        _, _, rest = self.text.split("-", 2)
        return f"{self.name.replace('-', '_')}-{self.version}-{rest}"


def parse_wheel_filename(text: str) -> WheelFilename:
    """Parse the file name of a wheel (F-12 to F-16).

    >>> parse_wheel_filename("fastfft-2.1-cp313-cp313-win_amd64-cu128.whl").label
    'cu128'

    :param text: the file name, already percent-decoded, without any folder.
    :raises InvalidFilename: the text is not a wheel file name; the message names the invalid part.
    """
    if not text.endswith(_SUFFIX):
        _refuse(text, "it does not end in '.whl'")  # F-16: lower case only
    stem = text[: -len(_SUFFIX)]
    if _TEXT.fullmatch(stem) is None:
        _refuse(text, "it has characters that no wheel file name has")
    parts = stem.split("-")
    # F-12
    build: BuildTag = ()
    label = None
    match len(parts):
        case 5:
            pass
        case 6 if parts[2][:1].isdigit():
            build = _build(text, parts.pop(2))
        case 6:
            label = parts.pop()
        case 7:
            build = _build(text, parts.pop(2))
            label = parts.pop()
        case count:
            parts_found = count_of(count, "part")
            _refuse(text, f"it has {parts_found} between hyphens, a wheel's has 5 to 7")
    name, version, *tags = parts
    if label is not None and not is_label(label):
        _refuse(text, f"{_shown(label)} is not a valid label (F-2)")
    return WheelFilename(
        _name(name) or _refuse(text, f"{_shown(name)} is not a valid project name"),
        _version(version) or _refuse(text, f"{_shown(version)} is not a valid version"),
        build,
        parse_tags("-".join(tags)) or _refuse(text, f"{_shown('-'.join(tags))} is not a valid tag"),
        None if label is None else Label(label),
        text,
    )


def wheel_filename_of(filename: str) -> WheelFilename | None:
    """Return the parsed file name of a wheel; None for names of other files, and invalid ones."""
    if not filename.endswith(_SUFFIX):
        return None
    try:
        return parse_wheel_filename(filename)
    except InvalidFilename:
        return None


def is_newer_format(filename: str) -> bool:
    """Return whether a file has the name of a wheel of format 2.0 or newer (PEP 777)."""
    return filename.endswith(_NEWER_SUFFIX)


def parse_newer_wheel_filename(text: str) -> WheelFilename | None:
    """Parse the file name of a wheel of format 2.0 or newer (PEP 777), to explain its rejection.

    >>> parse_newer_wheel_filename("fastfft-3.0-cp313-cp313-win_amd64.whlx").is_newer_format
    True

    :param text: the file name, already percent-decoded, without any folder.
    :return: None for any other file name.
    """
    if not is_newer_format(text):
        return None
    filename = wheel_filename_of(text.removesuffix(_NEWER_SUFFIX) + _SUFFIX)
    return filename and replace(filename, text=text)


def with_label(filename: WheelFilename, label: Label | None) -> WheelFilename:
    """Return the same file name with another label, or with none.

    :raises InvalidFilename: the result is longer than 255 bytes (F-3).
    """
    text = str(filename)
    if filename.label is not None:
        text = f"{text[: -len(filename.label) - len(_SUFFIX) - 1]}{_SUFFIX}"
    if label is not None:
        text = f"{text[: -len(_SUFFIX)]}-{label}{_SUFFIX}"
    if len(text) > _MAX_LENGTH:
        raise InvalidFilename(
            f"the file name would have {len(text)} bytes, more than {_MAX_LENGTH}",
            where=text,
            hint="choose a shorter label (F-3)",
        )
    return replace(filename, label=label, text=text)


def index_file_name(name: str, version: Version) -> str:
    """Return the name of the index file of a release, spelled as wheels are (F-70).

    >>> from packaging.version import Version
    >>> index_file_name("Foo-Bar", Version("1.0"))
    'foo_bar-1.0-variants.json'
    """
    return f"{canonicalize_name(name).replace('-', '_')}-{version}{_INDEX_SUFFIX}"


def parse_index_file_name(text: str) -> Release | None:
    """Parse the name of an index file, which need not be normalised (F-78).

    :return: name and version of the release; None if it is not the name of an index file.
    """
    if not text.endswith(_INDEX_SUFFIX):
        return None
    stem = text[: -len(_INDEX_SUFFIX)]
    if _TEXT.fullmatch(stem) is None:
        return None
    name_text, hyphen, version_text = stem.partition("-")
    name, version = _name(name_text), _version(version_text)
    if not hyphen or name is None or version is None:
        return None
    return name, version


@lru_cache(maxsize=4096)
def release_of(filename: str) -> Release | None:
    """Return the release of a file, by its name; None for names of other files.

    >>> release_of("Some_Thing-1.0-py3-none-any-cu128.whl")
    ('some-thing', <Version('1.0')>)
    """
    if (release := parse_index_file_name(filename)) is not None:
        return release
    if (wheel := wheel_filename_of(filename)) is not None:
        return wheel.name, wheel.version
    return sdist_release(filename)


def sdist_release(filename: str) -> Release | None:
    """Return the release of a source distribution, by its name; None for names of other files.

    >>> sdist_release("Demo_Project-1.0.tar.gz")
    ('demo-project', <Version('1.0')>)
    """
    try:
        return parse_sdist_filename(filename)
    except ValueError:  # also for numbers of thousands of digits
        return None


def project_of(filename: str) -> NormalizedName | None:
    """Return the project of a file, by its name; None for names of other files."""
    release = release_of(filename)
    return None if release is None else release[0]


def _build(text: str, part: str) -> BuildTag:
    match = _BUILD.fullmatch(part)
    # F-13: of 7 parts, the third must be a build tag.
    if match is None or has_too_many_digits(part):
        _refuse(text, f"{_shown(part)} is not a valid build tag")
    digits, rest = match.groups()
    return (int(digits), rest)


# A page names the same project, versions and tags thousands of times.


@lru_cache(maxsize=1024)
def _name(text: str) -> NormalizedName | None:
    if _NAME.fullmatch(text) is None or "__" in text:
        return None
    return canonicalize_name(text)


_version = lru_cache(maxsize=4096)(version_of)


def wheel_tags(filename: WheelFilename) -> str:
    """Return the tags of a wheel as written in its file name: ``py3-none-any``."""
    stem, _, _ = filename.plain.rpartition(".")
    return "-".join(stem.rsplit("-", 3)[1:])


@lru_cache(maxsize=4096)
def parse_tags(text: str) -> frozenset[Tag] | None:
    """Read the compressed tags in the file name of a wheel; None if they are not valid."""
    try:
        return parse_tag(text, limit=_MAX_TAGS)  # refuses a leading digit (F-11)
    except (InvalidTag, TooManyTagsError):
        return None


def _refuse(text: str, reason: str) -> NoReturn:
    raise InvalidFilename(
        f"{_shown(text)} is not a wheel file name: {reason}",
        hint="a wheel is named name-version[-build]-python-abi-platform[-label].whl",
    )


def _shown(text: str) -> str:
    return repr(shortened(text, _MAX_LENGTH))
