"""The sources a command looks in: pip's configuration, requirements files, then options."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.operations.cache_folder import cache_folder
from wheelfit.operations.pip_rules import pip_surroundings
from wheelfit.operations.user_folders import home
from wheelfit.sources.open import open_sources
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit_runtime.platforms.cache_folder import usable_cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from wheelfit.operations.context import Context
    from wheelfit.operations.requests import SourceOptions
    from wheelfit.resolution.requirements_file import RequirementsFile
    from wheelfit.sources.remembered import Remembered
    from wheelfit.sources.settings import SourceSettings


def read_settings(
    request: SourceOptions,
    environ: Mapping[str, str],
    files: Iterable[RequirementsFile] = (),
    prefix: Path | None = None,
) -> SourceSettings:
    """Put together where files come from; what comes later counts more.

    :param request: the options of `options.table.sources.SOURCES`.
    :param files: requirements files that name sources themselves.
    :param prefix: the environment in use; it may hold a pip configuration of its own.
    :raises InvalidConfiguration: something cannot be understood.
    """
    settings = read_pip_configuration(pip_surroundings(environ, prefix))
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
        # As in pip, a file's index replaces even the one given as an option.
        settings = settings.with_options(
            index_url=file.index_url,
            extra_index_urls=file.extra_index_urls,
            find_links=file.find_links,
            no_index=file.no_index,
            trusted_hosts=file.trusted_hosts,
        )
    return replace(settings, compare_sources=request.compare_sources)


def open_indexes(
    request: SourceOptions,
    settings: SourceSettings,
    context: Context,
    given_urls: Iterable[str] = (),
    *,
    by_content: bool = False,
    most: int | None = None,
) -> Remembered:
    """Open the sources; nobody is asked yet.

    :param request: the options of `options.table.sources.SOURCES`.
    :param settings: what `read_settings` returned.
    :param context: told what people should know about the sources.
    :param given_urls: URLs of wheels that the user named, with the logins in them.
    :param by_content: whether kept wheels are verified byte by byte before they are used.
    :param most: bytes that may be downloaded in all; None: any number.
    """
    # Looked at here, and not by each that is opened, so that its faults are told once.
    kept_in = usable_cache_folder(
        cache_folder(request.cache_dir, context.environ) if settings.cache else None,
        context.reporter.warn,
    )

    def opened(own: SourceSettings) -> Remembered:
        return open_sources(
            own,
            cache_folder=kept_in,
            environ=context.environ,
            home=home(),
            given_urls=given_urls,
            offline=request.offline,
            note=context.reporter.warn,
            most=most,
            by_content=by_content,
        )

    repository = opened(settings)
    if request.no_bridges:
        return repository
    return _bridged(request, settings, repository, opened)


def _bridged(
    request: SourceOptions,
    settings: SourceSettings,
    repository: Remembered,
    opened: Callable[[SourceSettings], Remembered],
) -> Remembered:
    """Return the sources with families of distributions as variants, as far as that is wished."""
    from wheelfit.sources.bridges.bridged import Bridged
    from wheelfit.sources.bridges.shelf import Shelf
    from wheelfit.sources.remembered import Remembered

    further: list[Remembered] = []

    def open_index(url: str) -> Remembered:
        only = replace(settings, index_url=url, extra_index_urls=(), find_links=(), no_index=False)
        further.append(opened(only))
        return further[-1]

    def close() -> None:
        for one in (repository, *further):
            one.close()

    def cut() -> None:
        for one in (repository, *further):
            one.cut()

    return Remembered(Bridged(repository, Shelf(request.bridge), open_index), close, cut)
