"""Edits of the ``[variant]`` table of a project."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.building.legacy_project import build_system_of
from wheelfit.building.provider_guide import KNOWN_NAMESPACES, Guide, guide_to
from wheelfit.building.table_editing import TableEdits, edit_table, read_pyproject
from wheelfit.core.labels import Label, parse_label
from wheelfit.core.plugin_answer import vocabulary_faults
from wheelfit.core.project_table import ProjectTable, read_project_table
from wheelfit.core.properties import PropertySet, parse_namespace, parse_property
from wheelfit.core.providers import StaticProvider
from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import UsageError
from wheelfit.operations.files import writable_mode, write_atomically
from wheelfit.operations.plain_data import plain_report
from wheelfit.operations.requests import ValidatedRequest
from wheelfit_runtime.errors import Fault, FileProblem, InvalidDocument, UserError, os_reason
from wheelfit_runtime.platforms.features import FeatureConfig
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.operations.context import Context

    Entries = dict[str, Mapping[str, Any]]
    PropertyValues = Mapping[str, Mapping[str, Sequence[str]]]

_BOM = b"\xef\xbb\xbf"


class InitRequest(ValidatedRequest):
    """The project, and the namespaces to add to its table or to remove."""

    folder: str = "."
    dry_run: bool = False
    provider: tuple[str, ...] = ()
    plugin_api: tuple[str, ...] = ()
    build_requires: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    remove_provider: tuple[str, ...] = ()
    remove_variant: tuple[str, ...] = ()

    @property
    def has_edits(self) -> bool:
        """Whether anything is added or removed."""
        return self != InitRequest(folder=self.folder, dry_run=self.dry_run)


@dataclass(frozen=True, slots=True)
class InitReport:
    """The difference that edits make to a project."""

    path: Path
    diff: tuple[str, ...]
    """The lines of a unified difference."""
    is_changed: bool
    is_written: bool
    has_variants: bool
    """Whether the table has variants now."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            file=self.path,
            changed=self.is_changed,
            written=self.is_written,
            diff="\n".join(self.diff),
        )


def init(request: InitRequest, context: Context) -> InitReport:
    """Edit the table of a project; comments, order and line endings stay.

    :raises FileProblem: the project cannot be read or written.
    :raises InvalidDocument: ``invalid-project``; the project has faults, or would have some.
    :raises UsageError: an edit is not valid.
    """
    path, old_data = _read(request)
    where = str(path)
    original = old_data if old_data is not None else _new_pyproject(path, context.reporter.note)
    table = read_project_table(read_pyproject(original, where=where)[1], where=where)
    edits = _edits(request, table)
    _check_values(edits, table, where)
    new_data = edit_table(original, edits, where=where)
    old_data = old_data or b""
    old, new = (
        data.decode("utf-8-sig").replace("\r\n", "\n").splitlines() for data in (old_data, new_data)
    )
    diff = tuple(unified_diff(old, new, where, where, lineterm=""))
    writes = old_data != new_data and not request.dry_run
    if writes:
        if old_data.startswith(_BOM):
            context.reporter.note("the byte order mark is removed: TOML readers refuse it")
        mode = writable_mode(path) if path.exists() else None
        write_atomically(where, new_data)
        if mode is not None:
            path.chmod(mode)
    variants = read_pyproject(new_data, where=where)[1].get("variant", {}).get("variants")
    return InitReport(path, diff, old_data != new_data, writes, bool(variants))


def read_table(request: InitRequest) -> ProjectTable | None:
    """Return the table of a project; None if it has none.

    :raises FileProblem: the project cannot be read.
    :raises InvalidDocument: ``invalid-project``; the project has faults.
    """
    path, data = _read(request)
    return read_project_table(read_pyproject(data or b"", where=str(path))[1], where=str(path))


def check_providers(request: InitRequest, table: ProjectTable | None) -> None:
    """Check the providers to add.

    :param table: of the project; None if it has none.
    :raises UsageError: a provider is unknown or not valid.
    """
    try:
        _entries(request, table)
    except UserError as error:
        raise UsageError(error.message, hint=error.hint) from None


def explain_namespaces() -> tuple[Guide, ...]:
    """Return the guide to each known namespace."""
    return tuple(guide for name in KNOWN_NAMESPACES if (guide := guide_to(name)) is not None)


def _read(request: InitRequest) -> tuple[Path, bytes | None]:
    """Return the path of a project's pyproject.toml, and its content; None: it is still missing."""
    path = Path(request.folder)
    path = path / "pyproject.toml" if path.is_dir() else path
    try:
        return path, path.read_bytes()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and build_system_of(path.parent) is not None:
            return path, None
        raise FileProblem(
            f"the project cannot be read: {os_reason(error)}",
            where=str(path),
            hint="name the folder of a project, which has a pyproject.toml or a setup.py",
        ) from None


def _new_pyproject(path: Path, note: Callable[[str], None]) -> bytes:
    """Return the text with which a new pyproject.toml begins."""
    text, modules = build_system_of(path.parent) or ("", ())
    if modules:
        note(
            f"setup.py imports {listed(modules)}: check that the packages of these modules have "
            "the same names"
        )
    return text.encode()


# --- edits -----------------------------------------------------------------------------------


def _edits(request: InitRequest, table: ProjectTable | None) -> TableEdits:
    """Return the edits of a request.

    :raises UsageError: one of them is not valid.
    """
    entries = _entries(request, table)
    existing = {} if table is None else table.providers
    variants: dict[str, PropertyValues] = {}
    for text in request.variant:
        label_text, _, properties = text.partition("=")
        label = str(parse_label(label_text.strip()))
        if label in variants:
            raise _option_error("--variant", text, f"the label {label} is given twice")
        variants[label] = _properties(text, properties)
        for namespace in variants[label]:
            # A known namespace needs no --provider.
            if namespace in {*existing, *entries}:
                continue
            guide = guide_to(namespace)
            if guide is None:
                raise _unknown(namespace)
            entries[namespace] = guide.entry
    for namespace in map(parse_namespace, request.first):
        if namespace not in {*existing, *entries}:
            raise UsageError(
                f"--first {namespace}: the table has no such namespace",
                hint=f"give --provider {namespace} too",
            )
    removed = tuple(map(parse_namespace, dict.fromkeys(request.remove_provider)))
    guides = {name: guide_to(name) for name in (*entries, *removed)}
    return TableEdits(
        providers=entries,
        remarks={name: _remark(guide) for name, guide in guides.items() if guide is not None},
        variants=variants,
        without_providers=removed,
        without_variants=tuple(dict.fromkeys(map(str.strip, request.remove_variant))),
        first=tuple(map(parse_namespace, request.first)),
    )


def _remark(guide: Guide) -> str:
    return f"{guide.purpose[:1].upper()}{guide.purpose[1:]}; as {guide.example}"


def _entries(request: InitRequest, table: ProjectTable | None) -> Entries:
    """Return the entries of the providers to add."""
    entries: Entries = {}
    for text in request.provider:
        namespace, requirement = _parse_pair("--provider", text, needs_value=False)
        guide = guide_to(namespace)
        if requirement:
            entries[namespace] = {"requires": [requirement]}
        elif guide is not None:
            if table is None or namespace not in table.providers:  # else it stays unchanged
                entries[namespace] = guide.entry
        elif table is None or namespace not in table.providers:
            raise _unknown(namespace)
    for text in request.build_requires:
        namespace, requirement = _parse_pair("--build-requires", text)
        entries[namespace] = {"build-requires": [requirement]}
    for text in request.static:
        name, values = _parse_pair("--static", text, has_feature=True)
        namespace, _, feature = name.partition(".")
        entry = dict(entries.get(namespace, {}))
        lists = {**entry.get("static-properties", {}), feature: _split_values(values)}
        entry = {"static-properties": lists}
        if len(lists) > 1:  # P-5
            entry = {"feature-order": list(lists), **entry}
        entries[namespace] = entry
    for text in request.plugin_api:
        namespace, entry_point = _parse_pair("--plugin-api", text)
        if namespace not in entries:
            raise UsageError(
                f"--plugin-api {text}: no plugin of {namespace} is given",
                hint=f"give --provider {namespace}=PACKAGE too",
            )
        entries[namespace] = {**entries[namespace], "plugin-api": entry_point}
    for provider in entries.values():
        for text in (*provider.get("requires", ()), *provider.get("build-requires", ())):
            parse_requirement(text, allow_variant_markers=False)
    return entries


def _unknown(namespace: str) -> UsageError:
    return UsageError(
        f"unknown namespace {namespace!r}",
        hint=f"name its plugin, as --provider {namespace}=PACKAGE, its values with --static, or "
        f"one of {', '.join(KNOWN_NAMESPACES)}",
    )


def _parse_pair(
    option: str, text: str, *, needs_value: bool = True, has_feature: bool = False
) -> tuple[str, str]:
    """Parse ``NAMESPACE=VALUE``, or with a feature ``NAMESPACE.FEATURE=VALUE``, at the first ``=``.

    :param needs_value: whether ``=VALUE`` must be given; otherwise the value may be empty.
    :raises UsageError: the text has another form.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if (needs_value or equals) and not value:
        raise _option_error(option, text, "it has no value after the first =")
    namespace, dot, feature = name.partition(".") if has_feature else (name, "", "")
    parse_namespace(namespace)
    if has_feature:
        if not dot:
            raise _option_error(option, text, "it names no feature")
        parse_namespace(feature)  # the same letters
    return name, value


def _properties(text: str, properties: str) -> PropertyValues:
    by_namespace: dict[str, dict[str, list[str]]] = {}
    for word in _split_values(properties):
        prop = parse_property(word)
        values = by_namespace.setdefault(prop.namespace, {}).setdefault(prop.feature, [])
        if prop.value not in values:
            values.append(prop.value)
    if not by_namespace:
        raise _option_error("--variant", text, "a variant has at least one property")
    return by_namespace


def _split_values(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _option_error(option: str, text: str, why: str) -> Exception:
    return UsageError(f"{option} {text!r} cannot be read: {why}", hint="see `wheelfit init --help`")


def _check_values(edits: TableEdits, table: ProjectTable | None, where: str) -> None:
    """Check new variants against the vocabulary of their namespaces (P-28, P-30).

    :raises InvalidDocument: ``invalid-project``; lists all invalid values.
    """
    vocabulary: dict[str, tuple[FeatureConfig, ...]] = {}
    for namespace in {name for by_namespace in edits.variants.values() for name in by_namespace}:
        entry = edits.providers.get(namespace)
        provider = None if table is None else table.providers.get(namespace)
        guide = guide_to(namespace)
        if entry is not None and "static-properties" in entry:
            lists = entry["static-properties"]
            vocabulary[namespace] = tuple(
                FeatureConfig(name, tuple(values), multi_value=True)
                for name, values in lists.items()
            )
        elif isinstance(provider, StaticProvider) and entry is None:
            vocabulary[namespace] = tuple(
                feature._replace(multi_value=True) for feature in provider.features
            )
        elif guide is not None and guide.features:
            vocabulary[namespace] = guide.features
    faults: list[Fault] = []
    for label, by_namespace in edits.variants.items():
        properties = PropertySet.from_mapping(by_namespace)
        faults += [
            fault._replace(path=f"variant.{fault.path}")
            for fault in vocabulary_faults(Label(label), properties, vocabulary)
        ]
    if faults:
        raise InvalidDocument(
            faults,
            code="invalid-project",
            where=where,
            hint="`wheelfit init --explain` lists valid values; nothing was written",
        )
