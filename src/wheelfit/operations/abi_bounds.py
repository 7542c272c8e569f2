"""Bounds of a library's releases, derived from symbols."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from wheelfit.building.abi.numpy_api import NUMPY, numpy_bounds
from wheelfit.building.abi.python_api import python_bounds
from wheelfit.building.abi.release_comparison import (
    LibraryRelease,
    choose_wheels,
    compare_releases,
    find_abicompat,
    read_libraries,
)
from wheelfit.building.abi.torch_api import TORCH, torch_bounds
from wheelfit.core.abi_exports import AbiExports
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.properties import parse_namespace
from wheelfit.core.versions import version_of
from wheelfit.errors import UsageError
from wheelfit.operations.abi_exports import read_exports_file
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import SourceOptions
from wheelfit.operations.requirements import project_name
from wheelfit.operations.targets import named_project
from wheelfit.operations.temporary_folders import scratch_folder
from wheelfit.sources.repository import Repository, TooCostly
from wheelfit.wheels.binaries.reading import binary_files, read_binary
from wheelfit_runtime.errors import FileProblem, NoFit, ProjectNotFound
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.version import Version

    from wheelfit.building.abi.bounds import Bounds, ReleaseVerdict
    from wheelfit.core.labels import Label
    from wheelfit.core.requirements import Requirement
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.sources.page import File
    from wheelfit.wheels.bytes_source import ByteSource


class AbiBoundsRequest(SourceOptions):
    """The wheel or library to examine, and the releases to compare it with."""

    consumer: str
    against: tuple[str, ...] = ()
    """Releases, as ``VERSION=FILE``, requirement, wheel or folder of wheels; or ``python>=3.9``."""
    named: str | None = None
    """The project of the library, where the releases do not name it."""
    exports: str | None = None
    """The file with the promises of the library, a ``pyproject.toml``."""
    namespace: str = "abi_dependency"
    label: Label | None = None
    newest: int = 10
    """The number of releases of an index, counted from the newest; 0: all."""
    built_with: str | None = None


@dataclass(frozen=True, slots=True)
class AbiBoundsReport:
    """The releases of a library that a consumer works with."""

    consumer: Path
    project: str
    """The project of the library, normalised; empty if unknown."""
    namespace: str
    bounds: Bounds

    @property
    def feature(self) -> str:
        """The project as the name of a feature (P-46); empty if unknown."""
        return self.project.replace("-", "_")

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        bounds = self.bounds
        return plain_report(
            bounds,
            "libraries symbols values first broken_by notes",
            consumer=str(self.consumer),
            project=self.project or None,
            interface=bounds.interface or None,
            releases=[
                plain_fields(
                    release,
                    "version origin fits missing_libraries missing_symbols",
                    changed_types=release.changed_types or None,
                    refusal=release.refusal or None,
                    undecided=release.undecided or None,
                )
                for release in bounds.releases
            ],
            properties=[
                f"{self.namespace} :: {self.feature} :: {value}"
                for value in bounds.values
                if self.feature
            ],
            requirement=f"{self.project}{bounds.requirement}" if self.project else None,
        )


def abi_bounds(request: AbiBoundsRequest, context: Context) -> AbiBoundsReport:
    """Return the releases of a library that a consumer works with, from symbols.

    :raises NoFit: ``no-compatible-release``; it works with none of them.
    :raises UsageError: no release is named, or two files of one version are.
    """
    if not request.against:
        raise UsageError("no release was given to compare with", hint="name it with --against")
    namespace = parse_namespace(request.namespace)
    built_with = None if request.built_with is None else _version(request.built_with)
    exports = None if request.exports is None else read_exports_file(request.exports)
    consumer = Path(request.consumer)
    if (pythons := _python_versions(request.against)) is not None:
        of_python = _require_fit(python_bounds(consumer, pythons), consumer, "Python")
        return AbiBoundsReport(consumer, "", namespace, of_python)
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        name = project_name(request.named) if request.named else ""
        releases = _Releases(request, context, consumer, stack, scratch, name)
        against = releases.find()
        bounds = None
        if releases.project == NUMPY:
            bounds = numpy_bounds(consumer, against, exports or AbiExports())
        elif releases.project == TORCH and built_with is None and releases.are_published:
            bounds = torch_bounds(
                read_libraries(consumer).symbols.values(),
                [(release.version, release.origin) for release in against],
                exports or AbiExports(),
            )
        bounds = bounds or compare_releases(
            consumer,
            against,
            exports,
            scratch,
            program=find_abicompat(),
            built_with=built_with,
        )
    bounds = _require_fit(bounds, consumer, releases.project or "the library")
    return AbiBoundsReport(consumer, releases.project, namespace, bounds)


def _python_versions(against: Sequence[str]) -> SpecifierSet | None:
    """Return the Pythons that a request names, as ``python>=3.9``; None: it names a library."""
    match = pattern(r"python\s*(|[<>=!~].*)").fullmatch(against[0])
    if match is None:
        return None
    if len(against) > 1:
        raise UsageError(
            "Python cannot be compared together with other releases", hint="give one --against"
        )
    try:
        return SpecifierSet(match[1])
    except InvalidSpecifier:
        raise UsageError(f"{match[1]!r} names no versions of Python") from None


def _require_fit(bounds: Bounds, consumer: Path, project: str) -> Bounds:
    """Return the bounds; raise ``no-compatible-release`` if no release is inside."""
    if bounds.first is None:
        raise NoFit(
            f"no release of {project} fits",
            code="no-compatible-release",
            where=str(consumer),
            note="\n".join(map(verdict_in_words, bounds.releases)),
            hint="compare with older and newer releases too, or name with --built-with the release "
            "that it was built with: symbols missing there count as those of other libraries",
        )
    return bounds


def _version(text: str) -> Version:
    version = version_of(text)
    if version is None:
        raise UsageError(f"{text!r} is not a version")
    return version


# --- releases -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Releases:
    """The releases that a request names."""

    request: AbiBoundsRequest
    context: Context
    consumer: Path
    stack: ExitStack
    scratch: Path
    project: str
    """The project, normalised; empty if unknown."""
    are_published: bool = True
    """Whether all of them come from an index, and none is a named file."""

    def find(self) -> list[LibraryRelease]:
        """Return the releases, each version once, the oldest first.

        This also sets `project` and `are_published`.
        """
        releases: dict[Version, LibraryRelease] = {}
        for text in self.request.against:
            for release in self._named_by(text):
                earlier = releases.setdefault(release.version, release)
                if earlier != release:
                    raise UsageError(
                        f"{release.version} was given twice: {earlier.origin} and {release.origin}",
                        hint="name one file of each version",
                    )
        if not releases:
            raise UsageError("no release was found to compare with")
        return [releases[version] for version in sorted(releases)]

    def _named_by(self, text: str) -> Iterator[LibraryRelease]:
        version, equals, file = text.partition("=")
        # 2.8=FILE, but not the requirement 3to2==1.1.
        if equals and version[:1].isdigit() and not file.startswith("="):
            self.are_published = False
            yield _release(_version(version), Path(file))
        elif (project := named_project(text, self.request, versions_suffice=True)) is not None:
            yield from self._published(project)
        else:
            yield from self._files(Path(text))

    def _files(self, path: Path) -> Iterator[LibraryRelease]:
        self.are_published = False
        if path.is_dir():
            wheels = sorted(path.glob("*.whl"))
            if not wheels:
                raise FileProblem("the folder has no wheels", where=str(path))
        elif path.exists():
            wheels = [path]
        else:
            raise FileProblem(
                "the file or folder does not exist",
                where=str(path),
                hint="name a wheel or a folder of wheels, or project:NAME for an index",
            )
        for wheel in wheels:
            name = parse_wheel_filename(wheel.name)
            self._set_project(name.name)
            if self.request.label is None or name.label == self.request.label:
                yield _release(name.version, wheel)

    def _published(self, requirement: Requirement) -> Iterator[LibraryRelease]:
        self._set_project(requirement.name)
        # Wheels as they are published, not as variants.
        request = self.request.with_options(no_bridges=True)
        settings = read_settings(request, self.context.environ)
        repository = self.stack.enter_context(open_indexes(request, settings, self.context))
        page = repository.project(canonicalize_name(requirement.name))
        if page is None:
            raise ProjectNotFound(f"{requirement.name} was not found in any index")
        is_wheel = self.consumer.suffix == ".whl"
        wheels = choose_wheels(
            page.files,
            self._machines(),
            parse_wheel_filename(self.consumer.name) if is_wheel else None,
            specifier=requirement.specifier,
            label=self.request.label,
            newest=self.request.newest,
        )
        for version, file in wheels:
            yield _published_release(version, file, repository, self.scratch, self.context.reporter)

    def _machines(self) -> frozenset[str]:
        binaries = (read_binary(file, name) for name, file in binary_files(self.consumer))
        return frozenset(machine for binary in binaries if binary for machine in binary.machines)

    def _set_project(self, name: str) -> None:
        if self.project and self.project != name:
            raise UsageError(
                f"{self.project} and {name} are two projects",
                hint="compare with one project at a time",
            )
        self.project = name


def _release(version: Version, path: Path) -> LibraryRelease:
    return LibraryRelease(version, path.name, lambda: path)


def _published_release(
    version: Version, file: File, repository: Repository, scratch: Path, reporter: Reporter
) -> LibraryRelease:
    def fetch() -> Path:
        reporter.detail(f"fetching {file.filename}")
        return repository.download(file, scratch)

    def open_parts() -> ByteSource | None:
        reporter.detail(f"reading {file.filename}")
        try:
            return repository.open(file)
        except TooCostly:
            return None

    return LibraryRelease(version, file.filename, fetch, is_temporary=True, open=open_parts)


# --- verdicts in words ---------------------------------------------------------------------

_MAX_SYMBOLS = 3
"""Missing symbols that are named in a message."""
_MAX_SYMBOL_LENGTH = 60


def _short(symbol: str) -> str:
    """Return a mangled C++ name shortened; ``--json`` has it whole."""
    return symbol if len(symbol) <= _MAX_SYMBOL_LENGTH else f"{symbol[:_MAX_SYMBOL_LENGTH]}…"


def verdict_in_words(verdict: ReleaseVerdict) -> str:
    """Return the verdict on one release in one line."""
    reasons = []
    if verdict.missing_libraries:
        reasons.append(f"has no {' and '.join(verdict.missing_libraries)}")
    if verdict.missing_symbols:
        names = ", ".join(map(_short, verdict.missing_symbols[:_MAX_SYMBOLS]))
        more = len(verdict.missing_symbols) - _MAX_SYMBOLS
        reasons.append(f"lacks {names}{f' (and {more} more)' if more > 0 else ''}")
    if verdict.changed_types:
        reasons.append(f"changed {verdict.changed_types}")
    if verdict.refusal:
        reasons.append(verdict.refusal)
    if verdict.undecided:
        reasons.append(f"not decided, {verdict.undecided}")
    return f"{verdict.version}: {'; '.join(reasons) or 'fits'}"
