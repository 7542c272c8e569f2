"""Which plugins may be run: trust by hash, and what a site allows."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName

from wheelfit.core.providers import PluginQuestion
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.trust import (
    NO_POLICY,
    NO_TRUST,
    PluginRules,
    PolicyFile,
    SitePolicy,
    Trust,
    TrustedFile,
    TrustedTree,
    TrustEntry,
    command_that_trusts,
)

A, B, C = "a" * 64, "b" * 64, "c" * 64
ACME = NormalizedName("acme-provider")
FILE = TrustedFile("acme_provider-1.2-py3-none-any.whl", A)
DEP = TrustedFile("tables-3-py3-none-any.whl", B)
ENTRY = TrustEntry(ACME, SpecifierSet(">=1,<2"), (FILE, DEP))


def question(*requirements: str, namespace: str = "acme") -> PluginQuestion:
    """Ask for a plugin as a document would."""
    parsed = [parse_requirement(text, allow_variant_markers=False) for text in requirements]
    return PluginQuestion(namespace, tuple(parsed), "acme_provider:Plugin")


def site(**settings: Any) -> SitePolicy:
    """Make a policy of one file."""
    return SitePolicy((PolicyFile("/etc/wheelfit/policy.toml", **settings),))


def judge(
    asked: PluginQuestion,
    trust: Trust = NO_TRUST,
    policy: SitePolicy = NO_POLICY,
    *,
    everything: bool = False,
) -> TrustedTree:
    """Decide by these rules."""
    return PluginRules(trust, policy, everything).judge(asked)


class TestJudge:
    """The fifth step."""

    def test_nothing_is_trusted_by_default(self) -> None:
        """P-14, P-18: without trust every plugin is refused, with the command that trusts it."""
        refusal = judge(question("acme-provider>=1")).refusal
        assert refusal == (
            "acme-provider is not trusted; to trust it: `wheelfit providers trust "
            "'acme-provider>=1' --namespace acme --plugin-api acme_provider:Plugin`"
        )

    def test_names_that_nobody_had(self) -> None:
        """P-19: for a name that anybody could have taken no command is offered to paste."""
        refusal = str(judge(question("x86-64-variant-provider>=99")).refusal)
        assert "check its owner first" in refusal
        assert "wheelfit providers trust" not in refusal

    def test_the_files_that_may_be_installed(self) -> None:
        """P-18, P-38: trust gives exactly the files that were agreed to."""
        tree = judge(question("acme-provider"), Trust((ENTRY,)))
        assert tree.refusal is None
        assert tree.files == {FILE.filename: A, DEP.filename: B}
        assert not tree.trusts_all

    @pytest.mark.parametrize("text", ["acme-provider==1.2", "acme_provider", "acme-provider<5"])
    def test_versions_that_overlap(self, text: str) -> None:
        """P-14: a trusted version must satisfy what a wheel requires."""
        assert judge(question(text), Trust((ENTRY,))).refusal is None

    @pytest.mark.parametrize("text", ["acme-provider==1.3", "acme-provider>2"])
    def test_versions_that_do_not(self, text: str) -> None:
        """P-14: another version is not trusted, and the reason says which one is."""
        assert "only in version 1.2" in str(judge(question(text), Trust((ENTRY,))).refusal)

    def test_files_outside_of_the_versions(self) -> None:
        """P-18: a file of the package counts only within the versions that are meant."""
        old = TrustedFile("acme_provider-0.9-py3-none-any.whl", C)
        entry = structs.replace(ENTRY, files=(FILE, DEP, old))
        assert old.filename not in judge(question("acme-provider"), Trust((entry,))).files

    @pytest.mark.parametrize(
        "bounds", [{"namespace": "other"}, {"plugin_api": "acme_provider:Other"}]
    )
    def test_another_purpose(self, bounds: dict[str, Any]) -> None:
        """P-18: trust for one namespace or endpoint is none for others."""
        entry = structs.replace(ENTRY, **bounds)
        refusal = judge(question("acme-provider"), Trust((entry,))).refusal
        assert refusal is not None
        assert next(iter(bounds.values())) in refusal

    @pytest.mark.parametrize(
        "text", ["acme-provider[more]", "acme-provider @ https://example.org/a-1-py3-none-any.whl"]
    )
    def test_extras_and_urls(self, text: str) -> None:
        """P-14: what is asked for in another way than by name and version is never trusted."""
        assert "cannot be trusted" in str(judge(question(text), Trust((ENTRY,))).refusal)

    def test_every_package_counts(self) -> None:
        """P-14: one package that is not trusted is enough to refuse."""
        refusal = judge(question("acme-provider", "second"), Trust((ENTRY,))).refusal
        assert refusal is not None
        assert refusal.startswith("second is not trusted")

    def test_the_command_is_safe_to_paste(self) -> None:
        """P-19: a stranger's specifier does nothing in the shell of whoever pastes the hint."""
        asked = question("acme-provider===1'&reboot&'")
        command = command_that_trusts(asked.requirements[0], asked)
        words = shlex.split(command)
        assert words[:3] == ["wheelfit", "providers", "trust"]
        assert words[3] == "acme-provider===1'&reboot&'"

    def test_everything(self) -> None:
        """P-18: everything can be trusted, for one command."""
        assert judge(question("stranger"), everything=True).trusts_all


class TestPolicy:
    """What a site allows cannot be loosened by anybody."""

    def test_never(self) -> None:
        """P-18: neither trust nor --trust-all-plugins counts against it."""
        policy = site(plugins="never")
        for everything in (False, True):
            refusal = judge(
                question("acme-provider"), Trust((ENTRY,)), policy, everything=everything
            ).refusal
            assert refusal == (
                'plugins are forbidden by /etc/wheelfit/policy.toml (plugins = "never")'
            )

    def test_a_list_limits(self) -> None:
        """P-18: with ``listed`` the user's trust counts only for files in the list."""
        policy = site(plugins="listed", entries=(structs.replace(ENTRY, files=(FILE,)),))
        tree = judge(question("acme-provider"), Trust((ENTRY,)), policy)
        assert tree.files == {FILE.filename: A}
        other = structs.replace(ENTRY, files=(TrustedFile(FILE.filename, C),))
        refusal = judge(question("acme-provider"), Trust((other,)), policy).refusal
        assert "is not in the list of /etc/wheelfit/policy.toml" in str(refusal)

    def test_a_list_may_grant(self) -> None:
        """P-18: what the site has looked at needs no user, if its file says so safely."""
        for grants in (True, False):
            policy = site(plugins="listed", entries=(ENTRY,), grants_trust=grants)
            assert (judge(question("acme-provider"), Trust(), policy).refusal is None) is grants

    def test_several_lists(self) -> None:
        """P-18: a further policy only takes away."""
        first = PolicyFile("one", plugins="listed", entries=(ENTRY,), grants_trust=True)
        second = PolicyFile("two", plugins="listed")
        assert judge(question("acme-provider"), policy=SitePolicy((first,))).refusal is None
        refusal = judge(question("acme-provider"), policy=SitePolicy((first, second))).refusal
        assert "list of two" in str(refusal)

    @pytest.mark.parametrize(
        ("settings", "key"),
        [
            ({"plugins": "listed"}, 'plugins = "listed"'),
            ({"plugins": "never"}, 'plugins = "never"'),
            ({"forbid_trust_all": True}, "forbid-trust-all = true"),
        ],
    )
    def test_trust_all(self, settings: dict[str, Any], key: str) -> None:
        """P-18: each of these refuses to trust everything, and can be named."""
        policy = site(**settings)
        assert policy.forbids_trust_all == ("/etc/wheelfit/policy.toml", key)
        assert not judge(question("stranger"), policy=policy, everything=True).trusts_all

    def test_the_strictest_word_counts(self) -> None:
        """P-10, P-18: what any of several policies switches off is off."""
        policy = SitePolicy(
            (
                PolicyFile("one", disabled=frozenset({"a"}), ignore_static=frozenset({"x"})),
                PolicyFile("two", disabled=frozenset({"a", "b"}), no_env_override=True),
            )
        )
        assert policy.disabled == {"a": "one", "b": "two"}
        assert policy.ignore_static == {"x"}
        assert policy.no_env_override == "two"


def test_rules_can_be_off() -> None:
    """P-14: whatever is trusted, no plugin is asked when the user says so."""
    rules = PluginRules(Trust((ENTRY,)), disabled_reason="plugins are switched off")
    assert rules.judge(question("acme-provider")).refusal == "plugins are switched off"


def test_questions_without_a_package() -> None:
    """P-7: a trusted plugin with a namespace can be asked by itself, at its default endpoint."""
    assert ENTRY.question() is None
    rules = PluginRules(Trust((structs.replace(ENTRY, namespace="acme"),)))
    asked = rules.question("acme")
    assert asked is not None
    assert (asked.endpoint, str(asked)) == ("acme_provider", "acme-provider<2,>=1")
    assert rules.question("other") is None
