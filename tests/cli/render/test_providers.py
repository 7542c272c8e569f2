"""Text output about providers and plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.cli.output import Output
from wheelfit.cli.render.providers import show_provider_facts, show_provider_list
from wheelfit.core.trust import PluginRules, SitePolicy
from wheelfit.core.trust_files import read_policy
from wheelfit.operations.providers import ProvidersReport, ProvidersRequest

POLICY = b"""\
version = 1
[[trusted]]
package = "acme-provider"
versions = "==1.2"
namespace = "acme"
files = [{ filename = "acme_provider-1.2-py3-none-any.whl", sha256 = "%s" }]
"""


def test_plugin_trusted_by_the_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P-18: the policy file is named as the origin of the trust."""
    policy = read_policy(POLICY % (b"0" * 64), "/etc/wheelfit/policy.toml", grants_trust=True)
    rules = PluginRules(policy=SitePolicy((policy,)))
    report = ProvidersReport(tmp_path / "providers.toml", rules, ProvidersRequest(), (), tmp_path)
    show_provider_list(report, Output())
    assert "by /etc/wheelfit/policy.toml" in capsys.readouterr().out
    facts = report.about("acme")
    assert facts is not None
    show_provider_facts(facts, Output())
    stdout = capsys.readouterr().out
    assert "  trusted by /etc/wheelfit/policy.toml: acme-provider==1.2" in stdout
    assert "sha256 0000" in stdout
