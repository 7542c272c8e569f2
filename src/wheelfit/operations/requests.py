"""Options that the requests of several operations have in common.

A request derives from the classes of the options that it has, and adds its own. Each field has the
name, the default and the meaning of the row in the table of options of the command line
(`docs/reference/commands.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, dataclass_transform

from wheelfit.operations.number_ranges import check_limits, check_number

if TYPE_CHECKING:
    from wheelfit.core.agreements import Agreement
    from wheelfit.core.provider_table import EmulatedPlugin
    from wheelfit.core.shorthands import Shorthand
    from wheelfit.resolution.requirements_file import RequirementLine
    from wheelfit.sources.settings import NamedIndex, PinnedProject

_Request = TypeVar("_Request", bound="ValidatedRequest")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class ValidatedRequest:
    """A frozen value that rejects everything the command line rejects.

    Its fields are the annotated names of its class and of those that the class derives from. It is
    not a dataclass: generating the methods for ninety fields takes a twentieth of a short command's
    time.

    :raises TypeError: a field is unknown or missing; a path is given, which is no string; or a
        string is given for a tuple, and would be split into its letters.
    :raises UsageError: a word or a number is not valid for a field.
    """

    def __init__(self, **values: Any) -> None:
        kind = type(self)
        types = field_types(kind)
        if unknown := [name for name in values if name not in types]:
            raise TypeError(f"{kind.__name__} has no field {unknown[0]!r}")
        for name, annotation in types.items():
            if name not in values and not hasattr(kind, name):
                raise TypeError(f"{kind.__name__} needs a value for {name!r}")
            value = values[name] if name in values else getattr(kind, name)
            _check_value(name, value, annotation)
            vars(self)[name] = value

    def with_options(self, **values: Any) -> Self:
        """Return a copy with other values of some fields."""
        return type(self)(**{**vars(self), **values})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: use with_options({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} stays")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


def field_types(kind: type) -> dict[str, str]:
    """Return the names of the fields of a class of options with their annotations."""
    types: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        types |= getattr(base, "__annotations__", {})
    return types


def request_like(kind: type[_Request], request: ValidatedRequest, **others: Any) -> _Request:
    """Return a request of another kind with the values of the fields that both have.

    :param others: values of fields that only the new kind has, or that replace common ones.
    """
    common = {name: getattr(request, name) for name in field_types(kind) if hasattr(request, name)}
    return kind(**{**common, **others})


def _check_value(name: str, value: Any, annotation: str) -> None:
    """Raise on a string in place of a tuple, on paths, and on invalid words and numbers.

    :param annotation: the type of the field, as text.
    """
    for item in value if isinstance(value, tuple) else (value,):
        if hasattr(item, "__fspath__"):
            raise TypeError(f"{name} takes strings: write {str(item)!r}, not {item!r}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        check_number(name, value)
    elif name == "limit":
        check_limits(value)
    elif isinstance(value, str) and annotation.startswith("tuple["):
        raise TypeError(f"{name} takes several: write ({value!r},), not {value!r}")
    elif isinstance(value, str) and annotation.startswith("Literal["):
        _check_word(name, value, annotation)


def _check_word(name: str, word: str, annotation: str) -> None:
    """Raise on a word that is not in the ``Literal`` of an annotation."""
    literals = annotation.removeprefix("Literal[").removesuffix("]").split(", ")
    if repr(word) not in literals:
        from wheelfit.errors import UsageError

        words = ", ".join(literal.strip("'") for literal in literals)
        raise UsageError(f"{name} cannot be {word!r}", hint=f"one of {words}")


class CacheOptions(ValidatedRequest):
    """The folder of the cache."""

    cache_dir: str | None = None
    no_cache_dir: bool = False


class SourceOptions(CacheOptions):
    """The sources of files; the defaults come from pip's configuration."""

    index_url: str | None = None
    extra_index_url: tuple[str, ...] = ()
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
    def bridges_off_by(self) -> Literal["", "option", "setting"]:
        """The kind of switch that turns off the default families; empty: they are on."""
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
    plugin_timeout: float = 10.0
    no_abi_dependency: bool = False
    provider_table: tuple[EmulatedPlugin, ...] = ()


class VariantOptions(ValidatedRequest):
    """Preferences about variants, and the rules for their metadata."""

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
    """The requirements of a request."""

    requirements: tuple[str, ...] = ()
    requirement: tuple[str, ...] = ()
    constraint: tuple[str, ...] = ()
    override: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    pre: bool = False
    no_deps: bool = False
    constraint_lines: tuple[RequirementLine, ...] = ()
    """The setting ``constraints``; the options are in ``constraint``."""
    override_lines: tuple[RequirementLine, ...] = ()
    excluded_names: tuple[str, ...] = ()
    dependency_group: tuple[str, ...] = ()


class BuildOptions(SourceOptions):
    """The projects that may be built from source, and the settings of their backends."""

    allow_source: tuple[str, ...] = ()
    config_settings: tuple[str, ...] = ()
    no_build_isolation: bool = False


class ResolutionBuildOptions(BuildOptions):
    """The options of builds, and whether a resolution prefers wheels to them."""

    only_binary: tuple[str, ...] = ()
    prefer_binary: bool = False


class ProjectOptions(ValidatedRequest):
    """The project that is worked on."""

    project: str | None = None
    extra: tuple[str, ...] = ()
    no_extra: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    no_group: tuple[str, ...] = ()
    default_groups: tuple[str, ...] = ()


class ProjectRequirementOptions(ProjectOptions, RequirementOptions):
    """The requirements given by name, by files, or by a project."""


class LockFileOptions(ValidatedRequest):
    """The lock to read, and the parts to take from it."""

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
    """The options of changes to an environment."""

    dry_run: bool = False
    compile: bool = False
    replace_files: bool = False
    link_mode: Literal["auto", "reflink", "hardlink", "copy"] = "auto"
    startup_files: Literal["warn", "allow", "deny"] = "warn"
    break_system_packages: bool = False


class WorkerOptions(ValidatedRequest):
    """The processes that share the work; by default this one."""

    jobs: int | None = None
    executor: str | None = None
