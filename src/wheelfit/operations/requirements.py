"""Requirements of a request: words, requirements files, projects, overrides and constraints."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct, field, structs
from packaging.utils import InvalidName, canonicalize_name

from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import InvalidRequirement, UsageError
from wheelfit.operations.projects import group_of, is_project_file, open_project
from wheelfit.projects.names import is_archive, is_repository_url
from wheelfit.resolution.request import GivenSource, GivenWheel, RequestedRequirement, given_wheel
from wheelfit.resolution.requirements_file import (
    RequirementLine,
    RequirementsFile,
    read_requirements_file,
)
from wheelfit.sources.hash_check import KNOWN_HASHES
from wheelfit.sources.urls import last_segment, redact
from wheelfit_runtime.errors import FileProblem, UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.labels import Label
    from wheelfit.core.requirements import Requirement
    from wheelfit.operations.requests import RequirementOptions
    from wheelfit.resolution.listing import AllowedHashes


class RequestedRequirements(Struct, frozen=True):
    """The requirements of a request, wherever they were written."""

    requirements: tuple[RequestedRequirement, ...]
    wheels: tuple[GivenWheel, ...]
    constraints: tuple[RequestedRequirement, ...]
    hashes: Mapping[NormalizedName, AllowedHashes]
    """Allowed digests by project, as far as any are given."""
    files: tuple[RequirementsFile, ...]
    """The requirements files, which may name sources and switches."""
    overrides: tuple[RequestedRequirement, ...] = ()
    """Requirements that replace every other one on their projects."""
    excluded: frozenset[NormalizedName] = frozenset()
    """Projects excluded even where others require them."""
    urls_with_logins: tuple[str, ...] = ()
    """URLs of files as they were written, with their credentials."""
    sources: tuple[GivenSource, ...] = ()
    """Projects to build, named as folders, archives or repositories."""
    has_hashes: bool = False
    """Whether any line promises a hash."""
    labels: Mapping[NormalizedName, Label] = field(default_factory=dict)
    """Labels of variants that lines of files name, by project."""

    __repr__ = object.__repr__  # URLs have credentials

    @property
    def only_binary(self) -> tuple[str, ...]:
        """The projects that the files require as wheels only, as they write it."""
        return tuple(text for file in self.files for text in file.only_binary)

    @property
    def requires_hashes(self) -> bool:
        """Whether all files need a hash: a file demands it, or a requirement has one (pip)."""
        return self.has_hashes or any(file.require_hashes for file in self.files)

    def wheel_urls(self) -> frozenset[str]:
        """Return the URLs of the wheels that are named, without credentials and hashes."""
        named = (asked.requirement.url for asked in self.requirements)
        of_requirements = (given_wheel(url).file.url for url in named if url is not None)
        return frozenset((*(wheel.file.url for wheel in self.wheels), *of_requirements))

    @property
    def has_promises(self) -> bool:
        """Whether any requirement has a hash, as in the fragment of a URL."""
        return self.has_hashes or any(_hashes(url, None) for url in self.urls_with_logins)


def read_wanted(
    request: RequirementOptions, environ: Mapping[str, str], *, may_be_empty: bool = False
) -> RequestedRequirements:
    """Read the requirements of a request and its files.

    :param may_be_empty: whether nothing need be named, as where a project is worked on.
    :raises UsageError: nothing is named, not even in a file.
    :raises InvalidRequirement: a text is not a requirement.
    :raises FileProblem: a file cannot be read.
    """
    projects = [name for name in request.requirement if is_project_file(name)]
    files = [
        read_requirements_file(name, _read, environ)
        for name in request.requirement
        if name not in projects
    ]
    limits = [
        read_requirements_file(name, _read, environ, as_constraints=True)
        for name in request.constraint
    ]
    lines = [RequirementLine(text, "") for text in request.requirements]
    lines += [RequirementLine(text, "", editable=True) for text in request.editable]
    lines += [line for file in files for line in file.requirements]
    is_named = lines or files or projects or request.of_group
    if not (is_named or may_be_empty):
        raise UsageError("no requirements were given", hint="name a requirement, or a file with -r")
    overrides, replacing = _overrides(request, environ)
    requirements = [asked for name in projects for asked in open_project(name).dependencies]
    requirements += [asked for text in request.of_group for asked in group_of(text)]
    wheels: list[GivenWheel] = []
    sources: list[GivenSource] = [
        source for asked in requirements if (source := source_of(asked)) is not None
    ]
    requirements = [asked for asked in requirements if source_of(asked) is None]
    hashes: dict[NormalizedName, set[tuple[str, str]]] = {}
    labels: dict[NormalizedName, Label] = {}
    for line in lines:
        requirement = _requirement_or_file(line)
        if isinstance(requirement, GivenWheel):
            wheels.append(requirement)
            continue
        if isinstance(requirement, GivenSource):
            sources.append(requirement)
            continue
        requirements.append(requirement)
        _note_label(line, requirement.requirement.name, labels)
        if line.hashes:
            hashes.setdefault(requirement.requirement.name, set()).update(line.hashes)
    constraints = [line for file in (*files, *limits) for line in file.constraints]
    constraints += request.constraints
    limiting = tuple(RequestedRequirement(_requirement(line), line.where) for line in constraints)
    for line, limit in zip(constraints, limiting, strict=True):
        _note_label(line, limit.requirement.name, labels)
    return RequestedRequirements(
        tuple(requirements),
        tuple(wheels),
        limiting,
        {name: frozenset(digests) for name, digests in hashes.items()},
        (*files, *limits, *replacing),
        overrides,
        frozenset(project_name(one, "--exclude") for one in (*request.exclude, *request.excludes)),
        tuple(url for url in map(_url, _with_urls(lines)) if not is_repository_url(url)),
        tuple(dict.fromkeys(sources)),
        any(line.hashes for line in lines),
        labels,
    )


def _note_label(
    line: RequirementLine, name: NormalizedName, labels: dict[NormalizedName, Label]
) -> None:
    """Add the label that a line names to those of the projects."""
    if line.label is not None and labels.setdefault(name, line.label) != line.label:
        raise UserError(
            f"two lines name the labels {labels[name]} and {line.label} of {name}", where=line.where
        )


def _overrides(
    request: RequirementOptions, environ: Mapping[str, str]
) -> tuple[tuple[RequestedRequirement, ...], list[RequirementsFile]]:
    """Return the overrides, and the files they are read from.

    An override on the command line replaces those of the settings for its project.
    """
    lines: list[RequirementLine] = []
    files = []
    for text in request.override:
        head = text.partition(";")[0]
        if not _NAMED_URL.match(text) and ("/" in head or "\\" in head or _LISTED.search(head)):
            files.append(read_requirements_file(text, _read, environ, as_constraints=True))
            lines += files[-1].constraints
        else:
            lines.append(RequirementLine(text, "--override"))
    overrides = [RequestedRequirement(_requirement(line), line.where) for line in lines]
    overridden = {asked.requirement.name for asked in overrides}
    settings = [RequestedRequirement(_requirement(line), line.where) for line in request.overrides]
    overrides += [asked for asked in settings if asked.requirement.name not in overridden]
    return tuple(overrides), files


_LISTED = pattern(r"\.(txt|in)\s*$")
"""Ends the name of a file of requirements."""


def project_name(
    text: str, where: str | None = None, hint: str | None = "give the name alone"
) -> NormalizedName:
    """Return the normalised name; the error of an invalid one has its place."""
    try:
        return canonicalize_name(text.strip(), validate=True)
    except InvalidName:
        raise UsageError(f"{text[:80]!r} is not a valid name", where=where, hint=hint) from None


def limited(
    wanted: RequestedRequirements, names: Iterable[str], environ: Mapping[str, str], said_by: str
) -> RequestedRequirements:
    """Return requirements with the constraints of further files added.

    :param said_by: the setting that names them, for errors.
    :raises InvalidRequirement: a text is not a requirement.
    :raises FileProblem: a file cannot be read.
    """
    try:
        files = [
            read_requirements_file(name, _read, environ, as_constraints=True) for name in names
        ]
        lines = [line for file in files for line in file.constraints]
        more = tuple(RequestedRequirement(_requirement(line), line.where) for line in lines)
    except UserError as error:
        error.note = "\n".join(filter(None, (error.note, f"the file is named by {said_by}")))
        raise
    return structs.replace(
        wanted, constraints=(*wanted.constraints, *more), files=(*wanted.files, *files)
    )


def _with_urls(lines: Iterable[RequirementLine]) -> Iterable[str]:
    return (line.text for line in lines if "://" in line.text)


def _url(text: str) -> str:
    """Return the URL in a reference: ``name @ URL ; marker``, or the URL alone."""
    named = _NAMED_URL.match(text)
    if named is None:
        return text
    return text[named.start("scheme") :].partition(" ")[0]


def _read(name: str) -> str:
    if "://" in name and not name.startswith("file:"):
        raise UserError(
            "requirements files must be local files",
            where=redact(name),
            hint="download and review the file first",
        )
    try:
        with Path(name).open("rb") as file:
            data = file.read(_LARGEST + 1)  # some files never end, as /dev/zero
        if len(data) > _LARGEST:
            raise FileProblem(f"the requirements file has more than {_LARGEST} bytes", where=name)
        return data.decode("utf-8")
    except OSError as error:
        raise FileProblem(
            f"the requirements file cannot be read: {error.strerror}",
            where=name,
            hint="check the path and its permissions",
        ) from None
    except UnicodeDecodeError:
        raise FileProblem("the requirements file is not UTF-8", where=name) from None


_LARGEST = 16 * 1024 * 1024


_NAMED_URL = pattern(
    r"[A-Za-z0-9][\w.-]*+\s*+(\[[^\]]*+\])?+\s*+@\s*+(?P<scheme>[a-z][a-z0-9+.-]*:)", re.ASCII
)


def _requirement_or_file(line: RequirementLine) -> RequestedRequirement | GivenWheel | GivenSource:
    text = line.text
    promised = dict(line.hashes)
    # "name @ URL" is a requirement; a bare URL or path is a wheel or a project. A path differs
    # from a name by its separator or its ending, never by the files of the current folder.
    if line.editable:
        return _editable(line)
    if _NAMED_URL.match(text):
        asked = RequestedRequirement(_requirement(line), line.where)
        source = source_of(asked)
        if source is None:
            return _promised(asked, line)
        return structs.replace(source, hashes=_hashes(source.url, line))
    path, extras = _split_extras(text)
    if _is_url(path, line.where):
        if not _names_source(path):
            return given_wheel(path, extras=extras, hashes=promised, where=line.where)
        return GivenSource(path, None, extras, _hashes(path, line), where=line.where)
    if is_project_file(path) or path.endswith(".txt"):
        # As a name it would be fetched from an index, where an attacker may own it.
        raise UserError(
            f"{path} is a file, not a requirement",
            where=line.where or None,
            hint=f"-r {path} reads it",
        )
    is_path = path.startswith((".", "/", "~")) or "\\" in path
    # A slash occurs in paths and in URLs; a URL is not reported as the name of a file.
    is_path = is_path or ("/" in path.partition(";")[0] and "://" not in path)
    if is_path or path.endswith(".whl") or is_archive(path):
        place = Path(os.path.expanduser(path))  # noqa: PTH111  # an unknown user is not an error yet
        if place.suffix == ".whl" and not place.is_dir():
            if not place.is_file():
                raise _missing("the wheel does not exist", place, line)
            url = place.resolve().as_uri()
            promised = _met(place, line.hashes)
            return given_wheel(url, extras=extras, hashes=promised, where=line.where)
        return GivenSource(_place(place, line), None, extras, _hashes("", line), where=line.where)
    return RequestedRequirement(_requirement(line), line.where)


def _met(wheel: Path, allowed: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return one digest for each algorithm: of several on a line, the digest of the wheel."""
    digests: dict[str, list[str]] = {}
    for algorithm, digest in allowed:
        digests.setdefault(algorithm, []).append(digest)
    for algorithm, several in digests.items():
        if len(several) > 1:
            import hashlib

            with wheel.open("rb") as file:
                actual = hashlib.file_digest(file, algorithm).hexdigest()
            # None of them: the first is promised, and reading the wheel fails.
            several[:] = [actual] if actual in several else several
    return {algorithm: several[0] for algorithm, several in digests.items()}


def _promised(asked: RequestedRequirement, line: RequirementLine) -> RequestedRequirement:
    """Add the hashes of a line to the URL of its wheel, for no index lists that file."""
    url = asked.requirement.url or ""
    promised = {algorithm for algorithm, _ in _hashes(url, None)}
    more = [f"{kind}={digest}" for kind, digest in line.hashes if kind not in promised]
    if not more or len(dict(line.hashes)) < len(line.hashes):  # one of several is enough
        return asked
    with_hashes = url + ("&" if "#" in url else "#") + "&".join(more)
    return structs.replace(asked, requirement=structs.replace(asked.requirement, url=with_hashes))


def _editable(line: RequirementLine) -> GivenSource:
    path, extras = _split_extras(line.text)
    if is_repository_url(path) or _is_url(path, line.where):
        url = path
    else:
        url = _place(Path(os.path.expanduser(path)), line)  # noqa: PTH111
    return GivenSource(url, None, extras, _hashes(url, line), editable=True, where=line.where)


def _place(path: Path, line: RequirementLine) -> str:
    """Return the URL of a folder or archive that was named by its path."""
    if not path.exists():
        raise _missing("the path does not exist", path, line)
    return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100  # links stay as named


def _missing(message: str, path: Path, line: RequirementLine) -> FileProblem:
    return FileProblem(
        message,
        where=str(path),
        note=_named(line),
        hint="name a wheel, a source archive or the folder of a project; without slashes and dots "
        "at its start it is a package of an index",
    )


def _named(line: RequirementLine) -> str | None:
    return f"it is named in {line.where}" if line.where else None


def source_of(asked: RequestedRequirement) -> GivenSource | None:
    """Return the source tree of a requirement with a URL; None if the URL is of a wheel."""
    one = asked.requirement
    if one.url is None or not _names_source(one.url):
        return None
    hashes = _hashes(one.url, None)
    return GivenSource(one.url, one.name, one.extras, hashes, False, one.marker, asked.where)


def _names_source(url: str) -> bool:
    """Return whether a URL is of a source tree: a repository, an archive or a folder."""
    if is_repository_url(url):
        return True
    name = last_segment(url)
    return is_archive(name) or (url.startswith("file:") and not name.endswith(".whl"))


def _hashes(url: str, line: RequirementLine | None) -> frozenset[tuple[str, str]]:
    """Return the digests that a line and the fragment of its URL promise."""
    promised = set(() if line is None else line.hashes)
    for part in url.partition("#")[2].split("&"):
        algorithm, _, digest = part.partition("=")
        if algorithm in KNOWN_HASHES and digest:
            promised.add((algorithm, digest.lower()))
    return frozenset(promised)


def _is_url(text: str, where: str) -> bool:
    try:
        return urlsplit(text).scheme in ("http", "https", "file") or is_repository_url(text)
    except ValueError as error:
        raise UserError(
            f"this URL cannot be read: {error}", where=where or None, note=redact(text)
        ) from None


def _split_extras(text: str) -> tuple[str, frozenset[NormalizedName]]:
    if not text.endswith("]"):
        return text, frozenset()
    path, _, inside = text[:-1].rpartition("[")
    return path, frozenset(
        canonicalize_name(extra.strip()) for extra in inside.split(",") if extra.strip()
    )


def _requirement(line: RequirementLine) -> Requirement:
    try:
        return parse_requirement(line.text, allow_variant_markers=False)
    except InvalidRequirement as error:
        error.where = line.where or None
        raise
