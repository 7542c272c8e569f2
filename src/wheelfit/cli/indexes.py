"""The sources a command looks in: pip's configuration, requirements files, then options."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.cli.cache_folder import cache_folder
from wheelfit.cli.configuration import home
from wheelfit.cli.pip_rules import pip_surroundings
from wheelfit.platforms.cache_folder import usable_cache_folder
from wheelfit.sources.open import open_sources
from wheelfit.sources.pip_configuration import read_pip_configuration

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from wheelfit.cli.output import Output
    from wheelfit.resolve.requirements_file import RequirementsFile
    from wheelfit.sources.remembered import Remembered
    from wheelfit.sources.settings import SourceSettings


def read_settings(
    arguments: Namespace,
    environ: Mapping[str, str],
    files: Iterable[RequirementsFile] = (),
    prefix: Path | None = None,
) -> SourceSettings:
    """Put together where files come from; what comes later counts more.

    :param arguments: the options of `options.table.sources.SOURCES`.
    :param environ: the environment of the process.
    :param files: requirements files that name sources themselves.
    :param prefix: the environment in use; it may hold a pip configuration of its own.
    :raises InvalidConfiguration: something cannot be understood.
    """
    settings = read_pip_configuration(pip_surroundings(environ, prefix))
    settings = settings.with_options(
        index_url=arguments.index_url,
        extra_index_urls=arguments.extra_index_url or (),
        find_links=arguments.find_links or (),
        no_index=arguments.no_index,
        cert=arguments.cert,
        client_cert=arguments.client_cert,
        proxy=arguments.proxy,
        trusted_hosts=arguments.trusted_host or (),
        timeout=arguments.timeout,
        retries=arguments.retries,
        connections=arguments.connections,
        cache=not arguments.no_cache_dir,
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
    return replace(settings, compare_sources=arguments.compare_sources)


def open_indexes(
    arguments: Namespace,
    settings: SourceSettings,
    environ: Mapping[str, str],
    output: Output,
    given_urls: Iterable[str] = (),
    *,
    by_content: bool = False,
) -> Remembered:
    """Open the sources; nobody is asked yet.

    :param arguments: the options of `options.table.sources.SOURCES`, maybe with `BOUNDS`.
    :param settings: what `read_settings` returned.
    :param environ: the environment of the process.
    :param output: told what people should know about the sources.
    :param given_urls: URLs of wheels that the user named, with the logins in them.
    :param by_content: whether kept wheels are verified byte by byte before they are used.
    """
    # Looked at here, and not by each that is opened, so that its faults are told once.
    kept_in = usable_cache_folder(
        cache_folder(arguments.cache_dir, environ) if settings.cache else None, output.warn
    )

    def opened(own: SourceSettings) -> Remembered:
        return open_sources(
            own,
            cache_folder=kept_in,
            environ=environ,
            home=home(),
            given_urls=given_urls,
            offline=arguments.offline,
            note=output.warn,
            most=getattr(arguments, "max_download", None),
            by_content=by_content,
        )

    repository = opened(settings)
    if arguments.no_bridges:
        return repository
    return _bridged(arguments, settings, repository, opened)


def _bridged(
    arguments: Namespace,
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

    return Remembered(Bridged(repository, Shelf(arguments.bridge), open_index), close, cut)
