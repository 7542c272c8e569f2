"""The plugins that may be run: trusted by the user and allowed by the site (P-14, P-18).

Trust names a package, its versions, and the hash of every file that would be installed for it,
dependencies included, since a name alone proves nothing (P-19). A site's policy limits that, and
users cannot loosen it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.provider_table import TABLE_DATE, UNREGISTERED
from wheelfit.core.providers import PluginQuestion, default_endpoint
from wheelfit.core.requirements import Requirement
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.specifiers import SpecifierSet
    from packaging.utils import NormalizedName
    from packaging.version import Version

PluginRule: TypeAlias = Literal["user", "listed", "never"]
"""The plugins that may run: those the user trusts; of these the listed ones; none."""


class TrustedFile(Struct, frozen=True):
    """A plain wheel that may be installed for a plugin."""

    filename: str
    sha256: str
    """Its digest, 64 hexadecimal digits in lower case."""

    @property
    def name(self) -> NormalizedName:
        """The distribution it belongs to."""
        return parse_wheel_filename(self.filename).name

    @property
    def version(self) -> Version:
        """The version of that distribution."""
        return parse_wheel_filename(self.filename).version


class TrustEntry(Struct, frozen=True):
    """The trust in one plugin: its package, versions and files."""

    package: NormalizedName
    """The package that a provider entry requires."""
    versions: SpecifierSet
    """Its trusted versions; empty: those of the files."""
    files: tuple[TrustedFile, ...]
    """The wheels that may be installed, of the package and its dependencies."""
    namespace: str | None = None
    """The only namespace it may answer for; None: any that requires it."""
    plugin_api: str | None = None
    """The only endpoint that may be called; None: any."""
    source: str = ""
    """The source of the files, without credentials."""
    added: str = ""
    """The date of the entry, such as ``2026-11-22``."""

    def applies(self, question: PluginQuestion) -> bool:
        """Return whether the entry covers a namespace and an endpoint."""
        has_namespace = self.namespace in (None, question.namespace)
        return has_namespace and self.plugin_api in (None, question.endpoint)

    def question(self) -> PluginQuestion | None:
        """Return the question to the plugin; None if the entry names no namespace."""
        if self.namespace is None:
            return None
        requirement = Requirement(self.package, specifier=self.versions)
        endpoint = self.plugin_api or default_endpoint(self.package)
        return PluginQuestion(self.namespace, (requirement,), endpoint)

    def usable_files(self) -> Iterable[TrustedFile]:
        """Yield the files, without files of the package that have other versions."""
        for file in self.files:
            if file.name != self.package or self.versions.contains(file.version, prereleases=True):
                yield file


class Trust(Struct, frozen=True):
    """The user's decisions about plugins and providers (``wheelfit providers``)."""

    entries: tuple[TrustEntry, ...] = ()
    """At most one for each package and namespace."""
    enabled: frozenset[str] = frozenset()
    """Namespaces whose optional provider may answer (P-10)."""
    disabled: frozenset[str] = frozenset()
    """Namespaces that are switched off (P-10)."""

    def of(self, package: NormalizedName) -> tuple[TrustEntry, ...]:
        """Return the trust entries of a package."""
        return tuple(entry for entry in self.entries if entry.package == package)


class PolicyFile(Struct, frozen=True):
    """A policy file; of several, the strictest rules apply."""

    where: str
    plugins: PluginRule = "user"
    entries: tuple[TrustEntry, ...] = ()
    """The plugins that the site has reviewed."""
    disabled: frozenset[str] = frozenset()
    """Namespaces that are forbidden."""
    ignore_static: frozenset[str] = frozenset()
    """Namespaces in which the machine takes precedence over packages' own lists (P-20)."""
    no_env_override: bool = False
    """Whether variables that override detection are ignored."""
    no_bridges: bool = False
    """Whether bridged families are forbidden, even if the user names them."""
    forbid_trust_all: bool = False
    """Whether ``--trust-all-plugins`` is refused; any rule but ``user`` refuses it too."""
    grants_trust: bool = False
    """Whether its entries are trusted without the user; if not, they only limit trust."""


class SitePolicy(Struct, frozen=True):
    """All policies that are in force."""

    files: tuple[PolicyFile, ...] = ()

    @property
    def disabled(self) -> Mapping[str, str]:
        """The namespaces switched off, each with the policy file."""
        return MappingProxyType(
            {name: file.where for file in reversed(self.files) for name in file.disabled}
        )

    @property
    def ignore_static(self) -> frozenset[str]:
        """Namespaces in which the machine takes precedence over packages' own lists."""
        return frozenset(name for file in self.files for name in file.ignore_static)

    @property
    def no_env_override(self) -> str | None:
        """The file that forbids variables overriding detection."""
        return next((file.where for file in self.files if file.no_env_override), None)

    @property
    def forbids_bridges(self) -> str | None:
        """The file that forbids bridged families."""
        return next((file.where for file in self.files if file.no_bridges), None)

    @property
    def forbids_plugins(self) -> str | None:
        """The file that forbids every plugin."""
        return next((file.where for file in self.files if file.plugins == "never"), None)

    @property
    def forbids_trust_all(self) -> tuple[str, str] | None:
        """The file that forbids ``--trust-all-plugins``, with the key."""
        for file in self.files:
            if file.plugins != "user":
                return file.where, f'plugins = "{file.plugins}"'
            if file.forbid_trust_all:
                return file.where, "forbid-trust-all = true"
        return None

    @property
    def granted(self) -> tuple[TrustEntry, ...]:
        """The entries trusted by policy files, without the user."""
        return tuple(entry for file in self.files if file.grants_trust for entry in file.entries)

    @property
    def allow_lists(self) -> tuple[PolicyFile, ...]:
        """The files that allow only the plugins they list."""
        return tuple(file for file in self.files if file.plugins == "listed")


NO_TRUST = Trust()
NO_POLICY = SitePolicy()


class TrustedTree(Struct, frozen=True):
    """The packages that may be installed for a plugin, or the reason why none may."""

    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """File name to SHA-256, of everything that may be installed."""
    trusts_all: bool = False
    """Whether the user trusts every plugin, so that ``files`` is no limit."""
    refusal: str | None = None
    """The reason the plugin is not trusted, one clause; None: it is."""


class PluginRules(Struct, frozen=True):
    """The rules that decide whether a plugin may be run."""

    trust: Trust = NO_TRUST
    policy: SitePolicy = NO_POLICY
    trusts_all: bool = False
    """Whether the user trusts every plugin, for this one command (P-18)."""
    disabled_reason: str | None = None
    """The reason no plugin is run, even if trusted, in a clause; None: some may be."""

    @property
    def entries(self) -> tuple[TrustEntry, ...]:
        """Everything that is trusted, by the user or by the site."""
        return (*self.trust.entries, *self.policy.granted)

    def question(self, namespace: str) -> PluginQuestion | None:
        """Return the question to the plugin trusted for a namespace; None if there is none."""
        for entry in self.entries:
            if entry.namespace == namespace:
                return entry.question()
        return None

    def judge(self, question: PluginQuestion) -> TrustedTree:
        """Decide the fifth step: whether a plugin may be installed and run (P-14, P-18)."""
        if self.disabled_reason is not None:
            return TrustedTree(refusal=self.disabled_reason)
        if (where := self.policy.forbids_plugins) is not None:
            return TrustedTree(refusal=f'plugins are forbidden by {where} (plugins = "never")')
        if self.trusts_all and self.policy.forbids_trust_all is None:
            return TrustedTree(trusts_all=True)
        for requirement in question.requirements:
            if requirement.url is not None or requirement.extras:
                return TrustedTree(
                    refusal=f"{requirement.name} is required with an extra or from a URL, "
                    "which cannot be trusted"
                )
        files: dict[str, str] = {}
        for requirement in question.requirements:
            entries = [entry for entry in self.entries if entry.package == requirement.name]
            refusal = _trust_refusal(requirement, entries, question)
            if refusal is not None:
                return TrustedTree(refusal=refusal)
            for entry in entries:
                if entry.applies(question):
                    files |= {file.filename: file.sha256 for file in entry.usable_files()}
        for listing in self.policy.allow_lists:
            allowed = {
                (file.filename, file.sha256)
                for entry in listing.entries
                if entry.applies(question)
                for file in entry.usable_files()
            }
            files = {name: digest for name, digest in files.items() if (name, digest) in allowed}
            for requirement in question.requirements:
                if not _has_required_version(requirement, files):
                    return TrustedTree(
                        refusal=f"{requirement} is not in the list of {listing.where} "
                        '(plugins = "listed")'
                    )
        return TrustedTree(MappingProxyType(files))


def command_that_trusts(requirement: Requirement, question: PluginQuestion) -> str:
    """Return the command that trusts one package of a plugin."""
    # The specifier is untrusted, and users paste the command into a shell.
    import shlex

    requirement_text = shlex.quote(f"{requirement.name}{requirement.specifier}")
    return (
        f"wheelfit providers trust {requirement_text} --namespace {question.namespace} "
        f"--plugin-api {question.endpoint}"
    )


def _trust_refusal(
    requirement: Requirement, entries: Sequence[TrustEntry], question: PluginQuestion
) -> str | None:
    command = command_that_trusts(requirement, question)
    if not entries and requirement.name in UNREGISTERED:  # P-19: no hint that could do harm
        return (
            f"{requirement.name} is not trusted; the name was not registered on PyPI in "
            f"{TABLE_DATE}, so check its owner first"
        )
    if not entries:
        return f"{requirement.name} is not trusted; to trust it: `{command}`"
    applying = [entry for entry in entries if entry.applies(question)]
    if not applying:
        bounds = [
            " at ".join(filter(None, (entry.namespace, entry.plugin_api))) for entry in entries
        ]
        return (
            f"{requirement.name} is trusted for {listed(bounds, 'or')} only; "
            f"to trust it here: `{command}`"
        )
    files = {file.filename: file.sha256 for entry in applying for file in entry.usable_files()}
    if not _has_required_version(requirement, files):
        versions = sorted(
            {
                file.version
                for entry in applying
                for file in entry.usable_files()
                if file.name == entry.package
            }
        )
        trusted = listed([str(version) for version in versions] or ["no version"], "or")
        return (
            f"{requirement} is required, but {requirement.name} is trusted only in version "
            f"{trusted}; to trust it: `{command}`"
        )
    return None


def _has_required_version(requirement: Requirement, files: Iterable[str]) -> bool:
    """Return whether one of the files has a required version."""
    for name in files:
        filename = parse_wheel_filename(name)
        if filename.name == requirement.name and requirement.specifier.contains(
            filename.version, prereleases=True
        ):
            return True
    return False
