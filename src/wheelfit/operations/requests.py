"""Options that the requests of several operations have in common.

A request derives from the classes of the options that it has, adds its own, and `frozen_request`
makes it a dataclass. Each field has the name, the default and the meaning of the row in the table
of options of the command line (`docs/reference/commands.md`). A class of options only lends its
fields; it is a dataclass itself only if a program passes nothing else, because to make one takes
the better part of a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, Literal, TypeVar, dataclass_transform

from wheelfit.operations.number_ranges import check_limits, check_number

if TYPE_CHECKING:
    from wheelfit.core.provider_table import EmulatedPlugin
    from wheelfit.core.shared_requirements import Agreement
    from wheelfit.core.shorthands import Shorthand
    from wheelfit.resolution.requirements_file import RequirementLine
    from wheelfit.sources.settings import NamedIndex, PinnedProject


_Request = TypeVar("_Request")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class ValidatedRequest:
    """A request that refuses what the command line would refuse as well."""

    def __post_init__(self) -> None:
        """Refuse one text where several belong, and words and numbers that mean nothing.

        :raises TypeError: a text stands where a tuple belongs; its letters would be taken.
        :raises UsageError: a word or a number is none of those that a field may have.
        """
        values: Any = self
        for one in fields(values):
            value = getattr(self, one.name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                check_number(one.name, value)
            if one.name == "limit":
                check_limits(value)
            if not isinstance(value, str):
                continue
            kind = str(one.type)
            if kind.startswith("tuple["):
                raise TypeError(f"{one.name} takes several: write ({value!r},), not {value!r}")
            if kind.startswith("Literal["):
                _check_word(one.name, value, kind)


def frozen_request(kind: type[_Request]) -> type[_Request]:
    """Make a frozen dataclass of a class, whose fields are its own and those of its bases."""
    kind.__annotations__ = field_types(kind)
    return dataclass(frozen=True, kw_only=True)(kind)


def field_types(kind: type) -> dict[str, str]:
    """Return the names of the fields of a class of options with their types, as written."""
    bases = reversed(kind.__mro__)
    return {name: each for base in bases for name, each in get_annotations(base).items()}


def _check_word(name: str, word: str, kind: str) -> None:
    from ast import literal_eval

    words = literal_eval(f"[{kind.removeprefix('Literal[')}")
    if word not in words:
        from wheelfit.errors import UsageError

        raise UsageError(f"{name} cannot be {word!r}", hint=f"one of {', '.join(words)}")


@frozen_request
class CacheOptions(ValidatedRequest):
    """Where things are kept between two runs."""

    cache_dir: str | None = None
    no_cache_dir: bool = False


@frozen_request
class SourceOptions(CacheOptions):
    """Where files come from; what is not given comes from the configuration of pip."""

    index_url: str | None = None
    extra_index_url: tuple[str, ...] = ()
    compare_sources: bool = False
    index_strategy: Literal["first-index", "unsafe-first-match", "unsafe-best-match"] = (
        "first-index"
    )
    uploaded_prior_to: str | None = None
    uploaded_prior_to_package: tuple[str, ...] = ()
    index_table: tuple[NamedIndex, ...] = ()
    pin_table: tuple[PinnedProject, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    bridge: tuple[str, ...] = ()
    no_bridges: bool = False
    shipped_bridges: bool = False
    proxy: str | None = None
    cert: str | None = None
    client_cert: str | None = None
    trusted_host: tuple[str, ...] = ()
    timeout: float | None = None
    retries: int | None = None
    connections: int = 4
    offline: bool = False

    @property
    def bridges_off(self) -> Literal["", "option", "setting"]:
        """What has turned off the families that count by default; empty: nothing."""
        if self.no_bridges:
            return "option"
        from wheelfit.sources.bridges.catalogue import has_defaults

        return "" if has_defaults(self.bridge) else "setting"


class EnvironmentOptions(CacheOptions):
    """The environment that is read or changed; by default the active one, else ``.venv``."""

    python: str | None = None
    system: bool = False
    prefix: str | None = None
    target: str | None = None
    root: str | None = None


@frozen_request
class MachineOptions(CacheOptions):
    """The machine to choose for; by default this one."""

    host: str | None = None
    allow_incomplete: bool = False
    devices: Literal["all", "highest", "lowest", "any"] = "all"
    rocm_compat: Literal["exact", "same-major"] = "exact"
    tpu_generation: bool = False
    enable_provider: tuple[str, ...] = ()
    disable_provider: tuple[str, ...] = ()
    ignore_static: tuple[str, ...] = ()
    no_env_override: bool = False
    no_plugins: bool = False
    trust_all_plugins: bool = False
    plugin_deadline: float = 10.0
    no_abi_dependency: bool = False
    provider_table: tuple[EmulatedPlugin, ...] = ()


class VariantOptions(ValidatedRequest):
    """Wishes about variants, and how their metadata is judged."""

    variant: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    allow_mixed: tuple[str, ...] = ()
    no_variants: bool = False
    strict: bool = False
    accept_unknown_drafts: bool = False
    read_unlisted: bool = False
    limit: tuple[tuple[str, int], ...] = ()
    agreement_table: tuple[Agreement, ...] = ()
    shorthands: tuple[Shorthand, ...] = ()


class RequirementOptions(ValidatedRequest):
    """What is asked for."""

    requirements: tuple[str, ...] = ()
    requirement: tuple[str, ...] = ()
    constraint: tuple[str, ...] = ()
    override: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    pre: bool = False
    no_deps: bool = False
    constraints: tuple[RequirementLine, ...] = ()
    overrides: tuple[RequirementLine, ...] = ()
    excludes: tuple[str, ...] = ()
    of_group: tuple[str, ...] = ()


class BuildConsentOptions(ValidatedRequest):
    """What may be built from source, and what its backend is given."""

    allow_source: tuple[str, ...] = ()
    config_settings: tuple[str, ...] = ()
    no_build_isolation: bool = False


class SourceBuildOptions(BuildConsentOptions):
    """What may be built from source, and how."""

    only_binary: tuple[str, ...] = ()
    prefer_binary: bool = False


class BuildOptions(BuildConsentOptions, SourceOptions):
    """What is needed to build from source."""


class BuildingOptions(SourceBuildOptions, BuildOptions):
    """The same for what is still to be chosen."""


class ProjectOptions(ValidatedRequest):
    """The project that is worked on."""

    project: str | None = None
    extra: tuple[str, ...] = ()
    no_extra: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    no_group: tuple[str, ...] = ()
    default_groups: tuple[str, ...] = ()


class ProjectRequirements(ProjectOptions, RequirementOptions):
    """What is asked for by name, by files, or by a project."""


class LockFileOptions(ValidatedRequest):
    """The lock that is read, and what is taken from it."""

    lock: str = "pylock.toml"
    extra: tuple[str, ...] = ()
    group: tuple[str, ...] | None = None


class BoundOptions(ValidatedRequest):
    """Bounds that no result may exceed."""

    require_accelerator: bool = False
    max_download: int | None = None


class ConsentOptions(ValidatedRequest):
    """The consent to exchange installed variants."""

    allow_variant_change: bool = False
    refit: bool = False


class AttestationOptions(ValidatedRequest):
    """The attestations that are verified."""

    verify_attestations: bool = False
    require_attestations: tuple[str, ...] = ()
    trusted_publisher: tuple[str, ...] = ()


class ChangeOptions(ValidatedRequest):
    """How files get into an environment."""

    dry_run: bool = False
    compile: bool = False
    replace_files: bool = False
    link_mode: Literal["auto", "reflink", "hardlink", "copy"] = "auto"
    startup_files: Literal["warn", "allow", "deny"] = "warn"
    break_system_packages: bool = False


class WorkerOptions(ValidatedRequest):
    """The processes that share the work on many items; by default this one."""

    jobs: int | None = None
    executor: str | None = None
