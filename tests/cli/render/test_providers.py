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
    report = ProvidersReport(tmp_path / "providers.toml", rules, ProvidersRequest(), tmp_path)
    show_provider_list(report, Output())
    assert "by /etc/wheelfit/policy.toml" in capsys.readouterr().out
    facts = report.about("acme")
    assert facts is not None
    show_provider_facts(facts, Output())
    stdout = capsys.readouterr().out
    assert "  trusted by /etc/wheelfit/policy.toml: acme-provider==1.2" in stdout
    assert "sha256 0000" in stdout


@pytest.mark.parametrize(
    ("flags", "line"),
    [(["fma"], "  1 feature with value on: fma"), (["a", "b"], "  2 features with value on: a, b")],
)
def test_features_that_are_on_or_off(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flags: list[str], line: str
) -> None:
    """Features whose only value is on are counted in one line."""
    report = ProvidersReport(
        tmp_path / "providers.toml", PluginRules(), ProvidersRequest(), tmp_path
    )
    facts = report.about("x86_64")
    assert facts is not None
    vocabulary = [{"feature": flag, "values": ["on"], "multi_value": False} for flag in flags]
    show_provider_facts({**facts, "vocabulary": vocabulary}, Output())
    assert line in capsys.readouterr().out.splitlines()
