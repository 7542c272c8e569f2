"""Requirements of a request: words, requirements files, projects, overrides and constraints."""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field, structs
from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.errors import InvalidRequirement, UsageError
from wheelfit.operations.projects import group_of, is_project_file, open_project
from wheelfit.projects.names import is_archive, is_repository_url
from wheelfit.resolution.request import (
    DirectSource,
    DirectWheel,
    RequestedRequirement,
    direct_wheel,
)
from wheelfit.resolution.requirements_file import (
    RequirementLine,
    RequirementsFile,
    read_requirements_file,
)
from wheelfit.sources.hash_check import KNOWN_HASHES
from wheelfit.sources.urls import last_segment, redact
from wheelfit_runtime.errors import FileProblem, UserError, os_reason
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.labels import Label
    from wheelfit.core.markers import Marker
    from wheelfit.operations.requests import RequirementOptions
    from wheelfit.resolution.listing import AllowedHashes
    from wheelfit.sources.pip_configuration import InstallRules


class RequestedRequirements(Struct, frozen=True):
    """The requirements of a request, wherever they were written."""

    requirements: tuple[RequestedRequirement, ...]
    wheels: tuple[DirectWheel, ...]
    constraints: tuple[RequestedRequirement, ...]
    hashes: Mapping[NormalizedName, AllowedHashes]
    """Allowed digests by project, as far as any are given."""
    files: tuple[RequirementsFile, ...]
    """The requirements files, which may name sources and options."""
    overrides: tuple[RequestedRequirement, ...] = ()
    """Requirements that replace every other one on their projects."""
    excluded: frozenset[NormalizedName] = frozenset()
    """Projects excluded even where others require them."""
    urls_with_logins: tuple[str, ...] = ()
    """URLs of files as they were written, with their credentials."""
    sources: tuple[DirectSource, ...] = ()
    """Projects to build, named as folders, archives or repositories."""
    has_line_hashes: bool = False
    """Whether any line has a hash (``--hash``)."""
    labels: Mapping[NormalizedName, Label] = field(default_factory=dict)
    """Labels of variants that lines of files name, by project."""

    __repr__ = object.__repr__  # URLs have credentials

    @property
    def only_binary(self) -> tuple[str, ...]:
        """The ``--only-binary`` values of the files."""
        return tuple(text for file in self.files for text in file.only_binary)

    @property
    def requires_hashes(self) -> bool:
        """Whether all files need a hash: a file demands it, or a requirement has one (pip)."""
        return self.has_line_hashes or any(file.require_hashes for file in self.files)

    def wheel_urls(self) -> frozenset[str]:
        """Return the URLs of the wheels that are named, without credentials and hashes."""
        constraints = (line for line in self.constraints if source_of(line) is None)
        urls = (line.requirement.url for line in (*self.requirements, *constraints))
        wheels = (*self.wheels, *(direct_wheel(url) for url in urls if url is not None))
        return frozenset(wheel.file.url for wheel in wheels)

    @property
    def has_any_hash(self) -> bool:
        """Whether any requirement has a hash, on its line or in the fragment of its URL."""
        return self.has_line_hashes or any(_hashes(url, None) for url in self.urls_with_logins)


def read_requirements(
    request: RequirementOptions, environ: Mapping[str, str], *, may_be_empty: bool = False
) -> RequestedRequirements:
    """Read the requirements of a request and its files.

    :param may_be_empty: whether a request without requirements is valid.
    :raises UsageError: there are no requirements.
    :raises InvalidRequirement: a text is not a requirement.
    :raises FileProblem: a file cannot be read.
    """
    projects = [name for name in request.requirement if is_project_file(name)]
    files = [
        requirements_of_file(name, environ) for name in request.requirement if name not in projects
    ]
    constraint_files = _constraint_files(request.constraint, environ)
    lines = [RequirementLine(text, "") for text in request.requirements]
    lines += [RequirementLine(text, "", editable=True) for text in request.editable]
    lines += [line for file in files for line in file.requirements]
    lines = list(map(_with_absolute_path, lines))
    is_named = lines or files or projects or request.dependency_group
    if not (is_named or may_be_empty):
        raise UsageError("no requirements were given", hint="name a requirement, or a file with -r")
    overrides, override_files = _overrides(request, environ)
    of_projects = [line for name in projects for line in open_project(name).dependencies]
    of_projects += [line for text in request.dependency_group for line in group_of(text)]
    requirements: list[RequestedRequirement] = []
    wheels: list[DirectWheel] = []
    sources: list[DirectSource] = []
    for requested in of_projects:
        if (source := source_of(requested)) is None:
            requirements.append(requested)
        else:
            sources.append(source)
    hashes: dict[NormalizedName, set[tuple[str, str]]] = {}
    labels: dict[NormalizedName, Label] = {}
    for line in lines:
        requirement = _requirement_or_file(line)
        if isinstance(requirement, DirectWheel):
            wheels.append(requirement)
            continue
        if isinstance(requirement, DirectSource):
            sources.append(requirement)
            continue
        requirements.append(requirement)
        _note_label(line, requirement.requirement.name, labels)
        if line.hashes:
            hashes.setdefault(requirement.requirement.name, set()).update(line.hashes)
    constraint_lines = [line for file in (*files, *constraint_files) for line in file.constraints]
    constraint_lines += request.constraint_lines
    constraint_lines = list(map(_with_absolute_path, constraint_lines))
    constraints = tuple(map(_parse_line, constraint_lines))
    for line, constraint in zip(constraint_lines, constraints, strict=True):
        _note_label(line, constraint.requirement.name, labels)
    return RequestedRequirements(
        tuple(requirements),
        tuple(wheels),
        constraints,
        {name: frozenset(digests) for name, digests in hashes.items()},
        (*files, *constraint_files, *override_files),
        overrides,
        frozenset(
            project_name(name, "--exclude") for name in (*request.exclude, *request.excluded_names)
        ),
        tuple(url for url in _urls([*lines, *constraint_lines]) if not is_repository_url(url)),
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
        if _is_file_name(text):
            (file,) = _constraint_files([text], environ)
            files.append(file)
            lines += file.constraints
        else:
            lines.append(RequirementLine(text, "--override"))
    overrides = [_parse_line(line) for line in lines]
    overridden = {override.requirement.name for override in overrides}
    settings = map(_parse_line, request.override_lines)
    remaining = (override for override in settings if override.requirement.name not in overridden)
    return (*overrides, *remaining), files


def _is_file_name(text: str) -> bool:
    """Return whether an override is the name of a requirements file."""
    head = text.partition(";")[0]
    is_path = "/" in head or "\\" in head
    return not _NAMED_URL.match(text) and bool(is_path or _FILE_ENDING.search(head))


_FILE_ENDING = pattern(r"\.(txt|in)\s*$")


def project_name(
    text: str, where: str | None = None, hint: str | None = "give the name alone"
) -> NormalizedName:
    """Return a normalised name; raise a `UsageError` with its place if it is invalid."""
    try:
        return canonicalize_name(text.strip(), validate=True)
    except InvalidName:
        raise UsageError(f"{text[:80]!r} is not a valid name", where=where, hint=hint) from None


def with_pip_constraints(
    requirement_set: RequestedRequirements, rules: InstallRules, environ: Mapping[str, str]
) -> RequestedRequirements:
    """Return requirements with the constraints of pip's configuration added.

    :raises InvalidRequirement: a text is not a requirement.
    :raises FileProblem: a file cannot be read.
    """
    try:
        files = _constraint_files(rules.constraints, environ)
        lines = [line for file in files for line in file.constraints]
        constraints = [structs.replace(_parse_line(line), is_configured=True) for line in lines]
    except UserError as error:
        setting = f"the file is named by {rules.origin_of('constraint')}"
        error.note = "\n".join(filter(None, (error.note, setting)))
        raise
    return structs.replace(
        requirement_set,
        constraints=(*requirement_set.constraints, *constraints),
        files=(*requirement_set.files, *files),
    )


def _urls(lines: Iterable[RequirementLine]) -> Iterator[str]:
    """Yield the URLs of lines: of ``name @ URL ; marker``, or of the URL alone."""
    for text in (line.text for line in lines if "://" in line.text):
        match = _NAMED_URL.match(text)
        yield text if match is None else text[match.start("scheme") :].partition(" ")[0]


def _constraint_files(names: Iterable[str], environ: Mapping[str, str]) -> list[RequirementsFile]:
    return [read_requirements_file(name, _read, environ, as_constraints=True) for name in names]


def _lock_hint(path: str) -> str:
    """Return how to use the lock of this path; empty if it is not the path of a lock."""
    if not path.endswith((".toml", ".lock")):
        return ""
    from wheelfit.locking.document import conversion_hint, is_lock_name

    name = PurePath(path).name
    if is_lock_name(name):
        return f"`wheelfit sync --inexact {path}` installs it; without --inexact others are removed"
    return conversion_hint(name)


def requirements_of_file(name: str, environ: Mapping[str, str]) -> RequirementsFile:
    """Read a local requirements file in pip's format, and those that it names.

    :raises FileProblem: a file cannot be read.
    :raises InvalidRequirement: a line cannot be read.
    :raises UserError: it is no local file or a lock, names itself, or uses an unsupported option.
    """
    return read_requirements_file(name, _read, environ)


def _read(name: str) -> str:
    if "://" in name and not name.startswith("file:"):
        raise UserError(
            "requirements files must be local files",
            where=redact(name),
            hint="download and review the file first",
        )
    if hint := _lock_hint(name):
        raise UserError("a lock is not a requirements file", where=name, hint=hint)
    try:
        with Path(name).open("rb") as file:
            data = file.read(_MAX_SIZE + 1)  # some files never end, as /dev/zero
        if len(data) > _MAX_SIZE:
            raise FileProblem(f"the requirements file has more than {_MAX_SIZE} bytes", where=name)
        return data.decode(_encoding_of(data))
    except OSError as error:
        raise FileProblem(
            f"the requirements file cannot be read: {os_reason(error)}",
            where=name,
            hint="check the path and its permissions",
        ) from None
    except UnicodeDecodeError:
        raise FileProblem("the requirements file is not UTF-8", where=name) from None


def _encoding_of(data: bytes) -> str:
    """Return the encoding that a byte order mark states, as PowerShell writes it; else UTF-8."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")


_MAX_SIZE = 16 * 1024 * 1024
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NAMED_URL = pattern(
    r"[A-Za-z0-9][\w.-]*+\s*+(\[[^\]]*+\])?+\s*+@\s*+(?P<scheme>[a-z][a-z0-9+.-]*:)", re.ASCII
)


def _with_absolute_path(line: RequirementLine) -> RequirementLine:
    """Return a line in which a ``file:`` URL with a relative path is absolute, as pip reads it."""
    text = _RELATIVE_URL.sub(
        lambda match: Path(os.path.abspath(unquote(match["path"]))).as_uri(),  # noqa: PTH100
        line.text,
        count=1,
    )
    return structs.replace(line, text=text)


_RELATIVE_URL = pattern(r"(?:^|(?<=@)|(?<=\s))file:(?!/)(?P<path>[^\s#;\[]++)")


def _requirement_or_file(
    line: RequirementLine,
) -> RequestedRequirement | DirectWheel | DirectSource:
    """Return the requirement, the wheel or the project to build that a line names.

    ``name @ URL`` is a requirement; a bare URL or path is a wheel or a project. A path differs from
    a name by its separator or its ending, never by the files of the current folder.
    """
    if _NAMED_URL.match(line.text) and not line.editable:
        requested = _parse_line(line)
        source = source_of(requested)
        if source is None:
            return _with_hashes(requested, line)
        return structs.replace(source, hashes=_hashes(source.url, line))
    marked = _MARKER.search(line.text)
    if marked is None:
        return _file(line) or _parse_line(line)
    file = _file(structs.replace(line, text=line.text[: marked.start()].rstrip()))
    if file is None:
        return _parse_line(line)
    marker = _marker(line, marked.start())
    if isinstance(file, DirectSource):
        return structs.replace(file, marker=marker)
    hashes = "&".join(f"{kind}={digest}" for kind, digest in file.file.hashes.items())
    url = f"{file.file.url}#{hashes}" if hashes else file.file.url
    name = file.requirement().name
    return RequestedRequirement(Requirement(name, file.extras, url=url, marker=marker), line.where)


# A semicolon may be part of a path or a URL.
_MARKER = pattern(r"(?<=\s);|;(?=\s|\(*+(?:python|os|sys|platform|implementation)_[a-z_]++)")


def _marker(line: RequirementLine, start: int) -> Marker | None:
    """Return the marker of a line whose semicolon has this index."""
    text = "x".ljust(start) + line.text[start:]  # so positions of errors are those in the line
    try:
        return parse_requirement(text, allow_variant_markers=False).marker
    except InvalidRequirement as error:
        raise InvalidRequirement(
            error.message,
            source=line.text,
            position=error.position,
            hint=error.hint,
            where=line.where or None,
        ) from None


def _file(line: RequirementLine) -> DirectWheel | DirectSource | None:
    """Return the wheel or the project that a path or URL names; None for other lines."""
    if line.editable:
        return _editable(line)
    path, extras = _split_extras(line.text)
    if _is_url(path, line.where):
        if not _names_source(path):
            return direct_wheel(path, extras=extras, hashes=dict(line.hashes), where=line.where)
        return DirectSource(path, None, extras, _hashes(path, line), where=line.where)
    hint = _lock_hint(path)
    if hint or is_project_file(path) or path.endswith((".txt", "requirements.in")):
        # As a name it would be fetched from an index, where an attacker may own it.
        raise UserError(
            f"{path} is a file, not a requirement",
            where=line.where or None,
            hint=hint or f"-r {path} reads it",
        )
    is_path = path.startswith((".", "/", "~")) or "\\" in path
    # A slash occurs in paths and in URLs; a URL is not reported as the name of a file.
    is_path = is_path or ("/" in path.partition(";")[0] and "://" not in path)
    if is_path or path.endswith(".whl") or is_archive(path):
        file = Path(os.path.expanduser(path))  # noqa: PTH111  # an unknown user is not an error yet
        if file.suffix == ".whl" and not file.is_dir():
            if not file.is_file():
                raise _missing("the wheel does not exist", file, line)
            url = file.resolve().as_uri()
            hashes = _wheel_digests(file, line.hashes)
            return direct_wheel(url, extras=extras, hashes=hashes, where=line.where)
        return DirectSource(
            _path_url(file, line), None, extras, _hashes("", line), where=line.where
        )
    return None


def _wheel_digests(wheel: Path, allowed: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return one allowed digest for each algorithm; of several, that of the wheel."""
    digests: dict[str, list[str]] = {}
    for algorithm, digest in allowed:
        digests.setdefault(algorithm, []).append(digest)
    for algorithm, expected in digests.items():
        if len(expected) > 1:
            import hashlib

            with wheel.open("rb") as file:
                actual = hashlib.file_digest(file, algorithm).hexdigest()
            # If none is the wheel's, the first stays, and reading the wheel fails.
            expected[:] = [actual] if actual in expected else expected
    return {algorithm: expected[0] for algorithm, expected in digests.items()}


def _with_hashes(requested: RequestedRequirement, line: RequirementLine) -> RequestedRequirement:
    """Add the hashes of a line to the URL of its wheel, since no index lists that file."""
    url = requested.requirement.url or ""
    algorithms = {algorithm for algorithm, _ in _hashes(url, None)}
    missing = [f"{kind}={digest}" for kind, digest in line.hashes if kind not in algorithms]
    has_alternatives = len(dict(line.hashes)) < len(line.hashes)  # which a URL cannot express
    if has_alternatives or not missing:
        return requested
    url += ("&" if "#" in url else "#") + "&".join(missing)
    return structs.replace(requested, requirement=structs.replace(requested.requirement, url=url))


def _editable(line: RequirementLine) -> DirectSource:
    path, extras = _split_extras(line.text)
    if is_repository_url(path) or _is_url(path, line.where):
        url = path
    else:
        url = _path_url(Path(os.path.expanduser(path)), line)  # noqa: PTH111
    return DirectSource(url, None, extras, _hashes(url, line), editable=True, where=line.where)


def _path_url(path: Path, line: RequirementLine) -> str:
    """Return the URL of an existing folder or archive."""
    if not path.exists():
        raise _missing("the path does not exist", path, line)
    return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100  # links stay as named


def _missing(message: str, path: Path, line: RequirementLine) -> FileProblem:
    return FileProblem(
        message,
        where=str(path),
        note=f"it is named in {line.where}" if line.where else None,
        hint="name a wheel, a source archive or the folder of a project; without slashes and dots "
        "at its start it is a package of an index",
    )


def source_of(requested: RequestedRequirement) -> DirectSource | None:
    """Return the source tree of a requirement with a URL; None if the URL is of a wheel."""
    requirement = requested.requirement
    if requirement.url is None or not _names_source(requirement.url):
        return None
    return DirectSource(
        requirement.url,
        requirement.name,
        requirement.extras,
        _hashes(requirement.url, None),
        marker=requirement.marker,
        where=requested.where,
    )


def _names_source(url: str) -> bool:
    """Return whether a URL is of a source tree: a repository, an archive or a folder."""
    if is_repository_url(url):
        return True
    name = last_segment(url)
    return is_archive(name) or (url.startswith("file:") and not name.endswith(".whl"))


def _hashes(url: str, line: RequirementLine | None) -> frozenset[tuple[str, str]]:
    """Return the digests on a line, if one is given, and in the fragment of a URL."""
    digests = set(() if line is None else line.hashes)
    for part in url.partition("#")[2].split("&"):
        algorithm, _, digest = part.partition("=")
        if algorithm in KNOWN_HASHES and digest:
            digests.add((algorithm, digest.lower()))
    return frozenset(digests)


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


def _parse_line(line: RequirementLine) -> RequestedRequirement:
    try:
        requirement = parse_requirement(line.text, allow_variant_markers=False)
    except InvalidRequirement as error:
        error.where = line.where or None
        raise
    return RequestedRequirement(requirement, line.where)
