"""The folder of the cache, from options, pip's configuration and the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.platforms.cache_folder import cache_folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.operations.requests import CacheOptions


def cache_folder(named: str | None, environ: Mapping[str, str]) -> Path:
    """Return the folder of the cache."""
    return Path(named or cache_folder_of(environ))


def cache_folder_in_use(request: CacheOptions, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of the cache; None if the cache is off.

    :param request: the request of any command; without cache options the default folder is used.
    """
    from wheelfit.operations.pip_rules import pip_config_locations
    from wheelfit.sources.pip_configuration import read_pip_configuration

    if request.no_cache_dir:
        return None
    try:
        configured = read_pip_configuration(pip_config_locations(environ, None))
    except InvalidConfiguration:
        return None  # the error is reported where the configuration is used
    return cache_folder(request.cache_dir, environ) if configured.cache else None
