"""Settings of pip that restrict installations, in its configuration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.operations.user_folders import home
from wheelfit.sources.pip_configuration import InstallRules, PipContext, read_pip_rules
from wheelfit_runtime.errors import PolicyRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.installation.environment import Environment
    from wheelfit.operations.requests import EnvironmentOptions


def read_rules(environ: Mapping[str, str], prefix: Path, command: str = "install") -> InstallRules:
    """Read pip's settings for installing or uninstalling.

    :param prefix: the environment in use; it may have a pip configuration of its own.
    :raises InvalidConfiguration: a setting is invalid.
    """
    return read_pip_rules(pip_config_locations(environ, prefix), command)


def check_changes(rules: InstallRules, environment: Environment) -> None:
    """Check that pip's configuration allows changes of the environment.

    :raises PolicyRefusal: a virtual environment is required, and this is not one.
    """
    if rules.require_virtualenv and not environment.interpreter.virtual:
        raise PolicyRefusal(
            "pip's configuration requires a virtual environment, and this is not one",
            where=environment.name,
            note=f"it is required by {rules.origin_of('require-virtualenv')}",
            hint="activate one, or name it with --python",
        )


def check_place(rules: InstallRules, request: EnvironmentOptions) -> None:
    """Check that pip's configuration does not install to another folder.

    :raises PolicyRefusal: it does, and the user named no folder.
    """
    if request.target or request.prefix or request.root:
        return
    for name in ("target", "prefix", "root"):
        if place := rules.others.get(name):
            raise PolicyRefusal(
                f"pip's configuration installs everything into {place}, which wheelfit only does "
                f"with --{name}",
                note=f"it is set by {rules.origin_of(name)}",
                hint=f"add --{name} {place}, or remove the setting to install into the environment",
            )


def pip_config_locations(environ: Mapping[str, str], prefix: Path | None) -> PipContext:
    """Return the places of pip's configuration."""
    prefixes = tuple(dict.fromkeys(filter(None, (Path(sys.prefix), prefix))))
    return PipContext(environ, home(), sys.platform, prefixes)
