"""What decides, for one command, whether a plugin may be asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli.running import arguments

from wheelfit.cli.output import Output
from wheelfit.core.trust import NO_POLICY, PluginRules, PolicyFile, SitePolicy
from wheelfit.errors import PolicyRefusal
from wheelfit.operations.plugins import plugin_folder, read_rules_about_plugins


def rules(*words: str, system: str = "posix", site: SitePolicy = NO_POLICY) -> PluginRules:
    """Read what decides for `wheelfit probe` with some options."""
    environ = {"WHEELFIT_PROVIDERS_FILE": os.devnull}
    return read_rules_about_plugins(
        arguments("probe", *words), environ, site, Output(), system=system
    )


def test_by_default() -> None:
    """P-18: plugins may be asked, and none is trusted."""
    found = rules()
    assert (found.off, found.everything, found.entries) == (None, False, ())


@pytest.mark.parametrize(
    ("words", "system", "why"),
    [
        (["--no-plugins"], "posix", "switched off"),
        (["--for", "x.toml"], "posix", "another machine"),
        (["--no-plugins", "--trust-all-plugins"], "posix", "switched off"),
        ([], "nt", "cannot confine them"),
    ],
)
def test_off(words: list[str], system: str, why: str) -> None:
    """P-14, P-35: whatever is trusted, no plugin is asked then, and the reason is told."""
    assert why in str(rules(*words, system=system).off)


def test_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """P-18: to trust everything is an option of one command, loud, and can be forbidden."""
    assert rules("--trust-all-plugins").everything
    assert "warning: --trust-all-plugins" in capsys.readouterr().err
    site = SitePolicy((PolicyFile("/etc/wheelfit/policy.toml", forbid_trust_all=True),))
    with pytest.raises(PolicyRefusal) as caught:
        rules("--trust-all-plugins", site=site)
    assert caught.value.where == "/etc/wheelfit/policy.toml"


def test_where_plugins_are_installed(tmp_path: Path) -> None:
    """P-38: in the cache, which an option or a variable can place elsewhere."""
    environ = {"WHEELFIT_CACHE_DIR": str(tmp_path / "cache")}
    assert plugin_folder(arguments("probe"), environ) == tmp_path / "cache" / "plugins"
    words = ["explain", "x", "--cache-dir", str(tmp_path / "other")]
    assert plugin_folder(arguments(*words), environ) == tmp_path / "other" / "plugins"
