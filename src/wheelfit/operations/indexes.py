"""The package sources of a command: pip's configuration, requirements files, then options."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.errors import UsageError
from wheelfit.operations.cache_folder import cache_folder
from wheelfit.operations.pip_rules import pip_config_locations
from wheelfit.operations.plain_data import plain_fields
from wheelfit.operations.user_folders import home
from wheelfit.sources.cache import Store
from wheelfit.sources.open import OpenedSources, is_protected_index, open_sources
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit.sources.urls import origin, redact
from wheelfit_runtime.errors import (
    FileProblem,
    InvalidConfiguration,
    NetworkError,
    NoFit,
    PolicyRefusal,
    WheelfitError,
)
from wheelfit_runtime.platforms.cache_folder import usable_cache_folder
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.requests import SourceOptions
    from wheelfit.resolution.candidates import ChoicePolicy
    from wheelfit.resolution.requirements_file import RequirementsFile
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.bridges.catalogue import BridgeCatalogue, KnownFamilies
    from wheelfit.sources.bridges.repository import BridgedRepository
    from wheelfit.sources.cooldown import Cooldown
    from wheelfit.sources.release_files import PageRelease, SortedFiles
    from wheelfit.sources.settings import FamilyHosts, SourceSettings

_MAX_REQUESTS = 8
"""Simultaneous requests to later indexes."""


def read_settings(
    request: SourceOptions,
    environ: Mapping[str, str],
    files: Iterable[RequirementsFile] = (),
    prefix: Path | None = None,
) -> SourceSettings:
    """Return the settings of sources, merged in order of precedence.

    :param files: requirements files that name sources themselves.
    :param prefix: the environment in use; it may have a pip configuration of its own.
    :raises InvalidConfiguration: a setting is invalid.
    """
    settings = read_pip_configuration(pip_config_locations(environ, prefix))
    settings = settings.with_options(
        index_url=request.index_url,
        extra_index_urls=request.extra_index_url or (),
        find_links=request.find_links or (),
        no_index=request.no_index,
        cert=request.cert,
        client_cert=request.client_cert,
        proxy=request.proxy,
        trusted_hosts=request.trusted_host or (),
        timeout=request.timeout,
        retries=request.retries,
        connections=request.connections,
        cache=not request.no_cache_dir,
    )
    for file in files:
        # As in pip, a file's index replaces even the index given as an option.
        settings = settings.with_options(
            index_url=file.index_url,
            extra_index_urls=file.extra_index_urls,
            find_links=file.find_links,
            no_index=file.no_index,
            trusted_hosts=file.trusted_hosts,
        )
    return structs.replace(
        settings,
        index_strategy=request.index_strategy,
        indexes=request.index_table,
        pins=request.pin_table,
        cooldown=_cooldown(request, settings.cooldown),
    )


def _cooldown(request: SourceOptions, by_pip: Cooldown | None) -> Cooldown | None:
    """Return the cooldown of the options, else of pip's configuration.

    :raises UsageError: a time cannot be parsed, or is in the future.
    """
    text, pairs = request.uploaded_prior_to, request.uploaded_prior_to_package
    if not (text or pairs):
        return by_pip

    from wheelfit.sources.cooldown import Cooldown, Cutoff, parse_cutoff

    by_project: dict[NormalizedName, Cutoff | None] = {}
    try:
        default = None if by_pip is None else by_pip.default
        if text:
            default = parse_cutoff(text)
        for pair in pairs:
            name, equals, time = pair.partition("=")
            if not (name.strip() and equals):
                raise UsageError(f"{pair[:80]!r} is not NAME=TIME or NAME=false")
            is_exempt = time.strip().lower() == "false"
            by_project[canonicalize_name(name.strip())] = None if is_exempt else parse_cutoff(time)
    except ValueError as error:
        raise UsageError(f"--uploaded-prior-to: {error}") from None
    now = datetime.now(UTC)
    if text and default is not None and default.at(now) > now:
        raise UsageError(
            f"--uploaded-prior-to {text} is in the future, and excludes nothing",
            hint="name a time that has passed, or a duration as P7D",
        )
    return Cooldown(default, by_project)


class ConfiguredSource(Struct, frozen=True):
    """An index, or another source, with the origin of its setting."""

    kind: Literal["find-links", "index"]
    url: str
    """URL without credentials, or path."""
    origin: str
    """The file, with line or section, or the variable; ``default`` for PyPI."""
    name: str = ""
    """The name of an index that settings name."""
    is_explicit: bool = False
    """Whether only pinned projects come from it."""
    pins: tuple[str, ...] = ()
    """The projects that come from it only."""

    def to_json(self) -> dict[str, object]:
        """Return the source as plain data."""
        return plain_fields(
            self, "kind url origin pins", name=self.name or None, explicit=self.is_explicit
        )


def configured_sources(settings: SourceSettings) -> tuple[ConfiguredSource, ...]:
    """Return the sources in effect: the find-links, then the indexes, each in their order."""
    links_origin = settings.origins.get("find_links", "")
    sources = [
        ConfiguredSource("find-links", redact(link), links_origin) for link in settings.find_links
    ]
    explicit = [index for index in settings.indexes if index.explicit and not settings.no_index]
    for index in (*settings.ordered_indexes, *explicit):
        pins = [pin.project for pin in settings.pins if index.name and pin.index == index.name]
        sources.append(
            ConfiguredSource(
                "index",
                redact(index.url),
                index.origin,
                index.name,
                index.explicit,
                tuple(dict.fromkeys(pins)),
            )
        )
    return tuple(sources)


def open_indexes(
    request: SourceOptions,
    settings: SourceSettings,
    context: Context,
    urls_with_logins: Iterable[str] = (),
    *,
    by_content: bool = False,
    max_download: int | None = None,
    direct_urls: Iterable[str] = (),
    fetches_direct_urls_whole: bool = False,
) -> OpenedSources:
    """Open the sources with the bridges that apply; no request is sent yet.

    Parameters that are not listed here are those of `open_sources`.

    :param max_download: bytes of whole wheels that may be downloaded; None: no limit.
    """
    # Checked once here, so that its faults are reported once.
    cache_path = usable_cache_folder(
        cache_folder(request.cache_dir, context.environ) if settings.cache else None,
        context.reporter.warn,
    )

    def open_with(source_settings: SourceSettings) -> OpenedSources:
        return open_sources(
            source_settings,
            cache_folder=cache_path,
            environ=context.environ,
            home=home(),
            urls_with_logins=urls_with_logins,
            offline=request.offline,
            note=context.reporter.warn,
            max_download=max_download,
            by_content=by_content,
            direct_urls=direct_urls,
            fetches_direct_urls_whole=fetches_direct_urls_whole,
        )

    repository = open_with(settings)
    catalogue = families_in_effect(request, settings, context.environ)
    if not catalogue:
        return repository
    return _bridged(catalogue, settings, repository, open_with, cache_path, context.reporter.warn)


def settings_for_source(
    settings: SourceSettings, url: str, *, is_page: bool, hosts: FamilyHosts | None = None
) -> SourceSettings:
    """Return settings limited to a single source.

    :param url: of an index, or of one page with links to all wheels.
    :param hosts: the only hosts that may be queried; None: any.
    """
    return structs.replace(
        settings,
        hosts=hosts,
        index_url=url,
        extra_index_urls=(),
        find_links=(url,) if is_page else (),
        no_index=is_page,
        indexes=(),
        pins=(),
    )


def families_in_effect(
    request: SourceOptions,
    settings: SourceSettings,
    environ: Mapping[str, str],
) -> BridgeCatalogue:
    """Return the families of distributions in effect under some settings.

    :param request: the named families; with ``no_bridges``, none is in effect.
    :param environ: the environment of the process, in which a policy may forbid all of them.
    :raises PolicyRefusal: a policy forbids what the user named, or cannot be read.
    :raises UserError: there is no such family.
    :raises FileProblem: a file cannot be read.
    :raises InvalidConfiguration: a third party could change the indexes of a family.
    :raises InvalidDocument: ``invalid-bridge``; a file breaks its rules.
    """
    from wheelfit.sources.bridges.catalogue import BridgeCatalogue, known_families

    @cache
    def policy() -> str | None:
        from wheelfit.operations.trust_store import read_policies

        return read_policies(environ).forbids_bridges

    if request.no_bridges:
        return BridgeCatalogue(["none"])
    catalogue = BridgeCatalogue(
        request.bridge,
        is_of_registry=settings.is_of_registry,
        is_forbidden=lambda: policy() is not None,
        families=known_families(environ, shipped_bridges=request.shipped_bridges),
    )
    if catalogue.requested and (where := policy()) is not None:
        raise PolicyRefusal(
            f"a policy forbids bridges, as {listed(request.bridge)}",
            where=where,
            note="it sets bridges = []",
        )
    for base in catalogue.bases.values():
        _check_location(base, settings)
    return catalogue


def with_family_hints(
    policy: ChoicePolicy, request: SourceOptions, environ: Mapping[str, str]
) -> ChoicePolicy:
    """Return a policy whose hints name the available families."""

    @cache
    def families() -> KnownFamilies:
        from wheelfit.sources.bridges.catalogue import SHIPPED, known_families

        try:
            return known_families(environ, shipped_bridges=request.shipped_bridges)
        except FileProblem:  # reported where families are used, not beside another error
            return SHIPPED

    return structs.replace(
        policy,
        families=lambda project: families().standing_for(project),
        bridges_off=request.bridges_off_by,
    )


def _check_location(base: str, settings: SourceSettings) -> None:
    """Raise if a third party could change the indexes below a base URL on their way.

    :raises InvalidConfiguration: it is neither a folder nor an https URL, nor of a trusted host.
    """
    try:
        address = origin(base) if "://" in base else None
    except ValueError:
        address = None
    if address is None or address.scheme not in {"http", "https"}:
        if Path(base).is_dir():
            return
        raise InvalidConfiguration(
            "the base of a bridge's indexes is neither an https URL nor an existing folder",
            where=redact(base),
            hint="--bridge NAME@URL names a mirror of them",
        )
    if not is_protected_index(base, settings):
        raise InvalidConfiguration(
            "the indexes of a bridge use plain HTTP, so they can be changed on the way",
            where=redact(base),
            hint=f"--trusted-host {address.host} uses them anyway",
        )


def _bridged(
    catalogue: BridgeCatalogue,
    settings: SourceSettings,
    repository: OpenedSources,
    open_with: Callable[[SourceSettings], OpenedSources],
    cache_path: Path | None,
    note: Callable[[str], None],
) -> OpenedSources:
    """Return the sources with families of distributions presented as variants."""
    from wheelfit.sources.bridges.repository import BridgedRepository

    owner_sources: list[OpenedSources] = []

    def open_index(url: str, *, is_page: bool, hosts: FamilyHosts | None) -> OpenedSources:
        owner_sources.append(
            open_with(settings_for_source(settings, url, is_page=is_page, hosts=hosts))
        )
        return owner_sources[-1]

    def close() -> None:
        for sources in (repository, *owner_sources):
            sources.close()

    def cancel() -> None:
        for sources in (repository, *owner_sources):
            sources.cancel()

    bridged = BridgedRepository(repository, catalogue, open_index, Store(cache_path), note)
    return OpenedSources(bridged, repository.pool, close, cancel, bridged)


def report_unexpected_sources(
    pins: Iterable[Pin], sources: OpenedSources, reporter: Reporter
) -> None:
    """Report sources that a user may not expect (F-126).

    These are local files used in place of those of indexes, indexes of a project's owner, and newer
    releases of later indexes.
    """
    chosen = [pin for pin in pins if not pin.is_direct]
    if sources.bridged is not None:
        for line in _owner_notes(chosen, sources.bridged):
            reporter.note(line)
    for pin in chosen:
        if not (reporter.wants_details and pin.file.is_local):
            continue
        with suppress(NetworkError):
            if copies := sources.pool.sources_of(pin.name, pin.version):
                reporter.detail(
                    f"{pin.name} {pin.version} is the local file, not that of {', '.join(copies)}"
                )
    warn_of_later_indexes(
        ((pin.name, pin.version, pin.filename.is_variant) for pin in chosen), sources, reporter
    )


def _owner_notes(pins: Iterable[Pin], bridged: BridgedRepository) -> Iterator[str]:
    """Yield notes on owners' indexes that are used by default."""
    names_by_index: dict[str, list[str]] = {}
    for pin in pins:
        if base := bridged.owner_of(pin.name, pin.file):
            names_by_index.setdefault(base, []).append(pin.name)
    for base, names in names_by_index.items():
        verb, possessive = ("comes", "its") if len(names) == 1 else ("come", "their")
        yield (
            f"{listed(names)} {verb} from {base}, the index of {possessive} owner; "
            "--no-bridges, or bridges = [] in a configuration, uses the files of the registry"
        )


def warn_of_later_indexes(
    chosen: Iterable[tuple[NormalizedName, Version, bool]],
    sources: OpenedSources,
    reporter: Reporter,
) -> None:
    """Warn of newer releases of chosen packages in later indexes, once for all of them.

    :param chosen: name and version of each package, and whether a variant of it was chosen.
    """
    if not sources.pool.has_later_indexes:
        return
    from wheelfit.sources.concurrency import map_concurrently

    texts = map_concurrently(
        list(chosen), lambda package: _newer_in_later_index(package, sources), most=_MAX_REQUESTS
    )
    if overlooked := [text for text in texts if text]:
        others = f" and {len(overlooked) - 3} more" if len(overlooked) > 3 else ""
        reporter.warn(
            f"an index that was not used has {'; '.join(overlooked[:3])}{others}: the first index "
            "that has a project supplies it; --index-strategy unsafe-best-match compares all, and "
            "[sources] in your wheelfit.toml or [tool.wheelfit.sources] in pyproject.toml takes a "
            "project from one of them"
        )


@contextmanager
def warning_of_later_indexes(sources: OpenedSources, reporter: Reporter) -> Iterator[None]:
    """Warn of releases of looked-up packages in later indexes, where nothing could be chosen."""
    try:
        yield
    except NoFit:
        from packaging.version import Version

        lowest = Version("0")
        with suppress(WheelfitError):  # of those indexes; the original error is reported
            packages = [(name, lowest, False) for name in sources.pool.looked_up_projects]
            warn_of_later_indexes(packages, sources, reporter)
        raise


def _newer_in_later_index(
    package: tuple[NormalizedName, Version, bool], sources: OpenedSources
) -> str | None:
    """Return a note on a later index with a newer release of a package, or with its variants."""
    from wheelfit.sources.release_files import files_by_release

    name, chosen, is_variant = package
    try:
        first, later = sources.project(name), sources.pool.later_pages(name)
    except NetworkError:
        return None
    if not later:
        return None
    newest = (None if first is None else _newest_wheel(files_by_release(first))) or chosen
    for page in later:
        files = files_by_release(page)
        if version := _newest_wheel(files, newer_than=newest):
            return f"{name} {version} ({page.source})"
        if not is_variant and _has_variant(files, chosen):
            return f"variants of {name} {chosen} ({page.source})"
    return None


def _newest_wheel(files: SortedFiles, *, newer_than: Version | None = None) -> Version | None:
    """Return the newest release with a wheel that is not yanked.

    :param newer_than: only final releases newer than this; None: any release.
    """
    for version, release in files.releases.items():
        if newer_than is not None and version <= newer_than:
            break
        if newer_than is not None and version.is_prerelease:
            continue
        if _has_wheel(release):
            return version
    return None


def _has_wheel(release: PageRelease) -> bool:
    """Return whether a release has a wheel that is not yanked; files are read only if needed."""
    if release.is_partly_yanked:
        return any(True for _ in _usable_wheels(release))
    return any(tags is not None for tags, _ in release.kinds)  # newer formats have no tags


def _has_variant(files: SortedFiles, version: Version) -> bool:
    """Return whether a release has a variant wheel that is not yanked."""
    release = files.releases.get(version)
    if release is None or not release.has_variants:
        return False
    return any(filename.is_variant for filename in _usable_wheels(release))


def _usable_wheels(release: PageRelease) -> Iterator[WheelFilename]:
    """Yield the names of the wheels of a release that are neither yanked nor of a newer format."""
    for file, filename in release.files().wheels:
        if file.yanked is None and not filename.is_newer_format:
            yield filename
