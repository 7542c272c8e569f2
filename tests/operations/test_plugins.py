"""What decides, for one command, whether a plugin may be asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from operations.remarks import Remarks

from wheelfit.core.trust import NO_POLICY, PluginRules, PolicyFile, SitePolicy
from wheelfit.operations.context import Context
from wheelfit.operations.plugins import plugin_folder, read_plugin_rules
from wheelfit.operations.requests import CacheOptions, MachineOptions
from wheelfit_runtime.errors import PolicyRefusal


def rules(
    remarks: Remarks | None = None,
    *,
    system: str = "posix",
    site: SitePolicy = NO_POLICY,
    **options: Any,
) -> PluginRules:
    """Read what decides for a command.

    :param options: of `MachineOptions`.
    """
    context = Context({"WHEELFIT_PROVIDERS_FILE": os.devnull}, remarks or Remarks())
    return read_plugin_rules(MachineOptions(**options), site, context, system=system)


def test_by_default() -> None:
    """P-18: plugins may be asked, and none is trusted."""
    found = rules()
    assert (found.disabled_reason, found.trusts_all, found.entries) == (None, False, ())


@pytest.mark.parametrize(
    ("options", "system", "why"),
    [
        ({"no_plugins": True}, "posix", "switched off"),
        ({"host": "x.toml"}, "posix", "another machine"),
        ({"no_plugins": True, "trust_all_plugins": True}, "posix", "switched off"),
        ({}, "nt", "cannot confine them"),
    ],
)
def test_off(options: dict[str, Any], system: str, why: str) -> None:
    """P-14, P-35: whatever is trusted, no plugin is asked then, and the reason is told."""
    assert why in str(rules(system=system, **options).disabled_reason)


def test_everything() -> None:
    """P-18: to trust everything is an option of one command, loud, and can be forbidden."""
    remarks = Remarks()
    assert rules(remarks, trust_all_plugins=True).trusts_all
    assert "warning: --trust-all-plugins" in remarks.text
    site = SitePolicy((PolicyFile("/etc/wheelfit/policy.toml", forbid_trust_all=True),))
    with pytest.raises(PolicyRefusal) as excinfo:
        rules(trust_all_plugins=True, site=site)
    assert excinfo.value.where == "/etc/wheelfit/policy.toml"


def test_where_plugins_are_installed(tmp_path: Path) -> None:
    """P-38: in the cache, which an option or a variable can place elsewhere."""
    environ = {"WHEELFIT_CACHE_DIR": str(tmp_path / "cache")}
    assert plugin_folder(CacheOptions(), environ) == tmp_path / "cache" / "plugins"
    named = CacheOptions(cache_dir=str(tmp_path / "other"))
    assert plugin_folder(named, environ) == tmp_path / "other" / "plugins"
