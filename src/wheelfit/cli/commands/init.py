"""Write the [variant] table of a project: who knows of machines, and which variants there are.

Without options, at a terminal, it asks. What the table has already stays; comments, order and line
endings of pyproject.toml too. --explain tells what can be known of machines, and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.cli.options.table.building import INIT, INIT_TABLE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wheelfit.build.provider_guide import Guide
    from wheelfit.build.table_editing import TableEdits
    from wheelfit.cli.output import Output
    from wheelfit.core.project_table import ProjectTable
    from wheelfit.errors import Fault, UsageError

    Wishes = dict[str, Mapping[str, Any]]
    Spaces = Mapping[str, Mapping[str, Sequence[str]]]


OPTIONS = (INIT, INIT_TABLE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Edit the table."""
    del environ
    from pathlib import Path

    from wheelfit.build.table_editing import edited, read_pyproject
    from wheelfit.core.project_table import read_project_table
    from wheelfit.errors import FileProblem

    if arguments.explain:
        return _explain(output)
    path = Path(arguments.folder)
    path = path / "pyproject.toml" if path.is_dir() else path
    try:
        before = path.read_bytes()
    except OSError as error:
        raise FileProblem(
            f"the project cannot be read: {error.strerror}",
            where=str(path),
            hint="name the folder of a project, which has a pyproject.toml",
        ) from None
    _, pyproject = read_pyproject(before, where=str(path))
    table = read_project_table(pyproject, where=str(path))
    asks = not any(getattr(arguments, name) for name in _EDITS)
    if asks:
        _ask(arguments, output, table)
    edits = _edits(arguments, table)
    _check_values(edits, table, str(path))
    after = edited(before, edits, where=str(path))
    _finish(arguments, output, path, before, after, asks=asks)
    return 0


_BOM = b"\xef\xbb\xbf"
_EDITS = ("provider", "plugin_api", "build_requires", "static", "variant", "first",
          "remove_provider", "remove_variant")  # fmt: skip


def _explain(output: Output) -> int:
    from wheelfit.build.provider_guide import KNOWN_NAMESPACES, guide_to

    guides = [guide for name in KNOWN_NAMESPACES if (guide := guide_to(name)) is not None]
    output.result_json({"version": 1, "namespaces": [one.to_mapping() for one in guides]})
    for one in guides:
        for line in one.lines():
            output.result(line)
        output.result()
    return 0


# --- what is wished --------------------------------------------------------------------------


def _edits(arguments: Namespace, table: ProjectTable | None) -> TableEdits:
    """Read the options.

    :raises UsageError: one of them cannot be meant.
    """
    from wheelfit.build.provider_guide import guide_to
    from wheelfit.build.table_editing import TableEdits
    from wheelfit.core.labels import parse_label
    from wheelfit.core.properties import parse_namespace
    from wheelfit.errors import UsageError

    entries = _entries(arguments, table)
    known = {} if table is None else table.providers
    variants: dict[str, Spaces] = {}
    for text in arguments.variant:
        label, _, properties = text.partition("=")
        parsed = str(parse_label(label.strip()))
        if parsed in variants:
            raise _unclear("--variant", text, f"the label {parsed} is given twice")
        variants[parsed] = _properties(text, properties)
        for namespace in variants[parsed]:
            # A namespace that is known goes without saying.
            if namespace in {*known, *entries}:
                continue
            guide = guide_to(namespace)
            if guide is None:
                raise _unknown(namespace)
            entries[namespace] = guide.entry
    for namespace in map(parse_namespace, arguments.first):
        if namespace not in {*known, *entries}:
            raise UsageError(
                f"--first {namespace}: the table has no such namespace",
                hint=f"give --provider {namespace} too",
            )
    removed = tuple(map(parse_namespace, dict.fromkeys(arguments.remove_provider)))
    guides = {name: guide_to(name) for name in (*entries, *removed)}
    return TableEdits(
        providers=entries,
        remarks={name: _remark(guide) for name, guide in guides.items() if guide is not None},
        variants=variants,
        without_providers=removed,
        without_variants=tuple(dict.fromkeys(map(str.strip, arguments.remove_variant))),
        first=tuple(map(parse_namespace, arguments.first)),
    )


def _remark(guide: Guide) -> str:
    return f"{guide.purpose[:1].upper()}{guide.purpose[1:]}; as {guide.example}"


def _entries(arguments: Namespace, table: ProjectTable | None) -> Wishes:
    """Return the entries of providers that were asked for."""
    from wheelfit.build.provider_guide import guide_to
    from wheelfit.errors import UsageError

    entries: Wishes = {}
    for text in arguments.provider:
        namespace, requirement = _pair("--provider", text, needs_value=False)
        guide = guide_to(namespace)
        if requirement:
            entries[namespace] = {"requires": [requirement]}
        elif guide is not None:
            if table is None or namespace not in table.providers:  # else it stays as it is
                entries[namespace] = guide.entry
        elif table is None or namespace not in table.providers:
            raise _unknown(namespace)
    for text in arguments.build_requires:
        namespace, requirement = _pair("--build-requires", text)
        entries[namespace] = {"build-requires": [requirement]}
    for text in arguments.static:
        name, values = _pair("--static", text, separator=".")
        namespace, _, feature = name.partition(".")
        entry = dict(entries.get(namespace, {}))
        lists = {**entry.get("static-properties", {}), feature: _words(values)}
        entry = {"static-properties": lists}
        if len(lists) > 1:  # P-5
            entry = {"feature-order": list(lists), **entry}
        entries[namespace] = entry
    for text in arguments.plugin_api:
        namespace, place = _pair("--plugin-api", text)
        if namespace not in entries:
            raise UsageError(
                f"--plugin-api {text}: no plugin of {namespace} is given",
                hint=f"give --provider {namespace}=PACKAGE too",
            )
        entries[namespace] = {**entries[namespace], "plugin-api": place}
    _check_requirements(entries)
    return entries


def _unknown(namespace: str) -> UsageError:
    from wheelfit.build.provider_guide import KNOWN_NAMESPACES
    from wheelfit.errors import UsageError

    return UsageError(
        f"nothing is known of the namespace {namespace!r}",
        hint=f"name its plugin, as --provider {namespace}=PACKAGE, its values with --static, or "
        f"one of {', '.join(KNOWN_NAMESPACES)}",
    )


def _check_requirements(entries: Wishes) -> None:
    from wheelfit.core.requirements import parse_requirement

    for entry in entries.values():
        for key in ("requires", "build-requires"):
            for text in entry.get(key, ()):
                parse_requirement(text, allow_variant_markers=False)


def _pair(
    option: str, text: str, *, needs_value: bool = True, separator: str = ""
) -> tuple[str, str]:
    """Read ``NAME=VALUE``."""
    from wheelfit.core.properties import parse_namespace

    name, equals, value = (part.strip() for part in text.partition("="))
    if (needs_value or equals) and not value:
        raise _unclear(option, text, "there is nothing behind the first =")
    head, dot, feature = name.partition(separator) if separator else (name, "", "")
    parse_namespace(head)
    if separator:
        if not dot:
            raise _unclear(option, text, "it names no feature")
        parse_namespace(feature)  # the same letters
    return name, value


def _properties(text: str, properties: str) -> Spaces:
    from wheelfit.core.properties import parse_property

    found: dict[str, dict[str, list[str]]] = {}
    for word in _words(properties):
        one = parse_property(word)
        values = found.setdefault(one.namespace, {}).setdefault(one.feature, [])
        if one.value not in values:
            values.append(one.value)
    if not found:
        raise _unclear("--variant", text, "a variant has at least one property")
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _unclear(option: str, text: str, why: str) -> Exception:
    from wheelfit.errors import UsageError

    return UsageError(f"{option} {text!r} cannot be read: {why}", hint="wheelfit init --help")


def _check_values(edits: TableEdits, table: ProjectTable | None, where: str) -> None:
    """Check new variants against what is known of their namespaces (P-28, P-30).

    :raises InvalidProject: a value is none; names all of them.
    """
    from dataclasses import replace

    from wheelfit.build.provider_guide import guide_to
    from wheelfit.core.labels import Label
    from wheelfit.core.plugin_answer import vocabulary_faults
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.providers import StaticProvider
    from wheelfit.errors import InvalidProject
    from wheelfit.platforms.features import FeatureConfig

    vocabulary: dict[str, tuple[FeatureConfig, ...]] = {}
    for namespace in {space for spaces in edits.variants.values() for space in spaces}:
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
                replace(one, multi_value=True) for one in provider.features
            )
        elif guide is not None and guide.features:
            vocabulary[namespace] = guide.features
    faults: list[Fault] = []
    for label, spaces in edits.variants.items():
        properties = PropertySet.from_mapping(spaces)
        faults += [
            fault._replace(path=f"variant.{fault.path}")
            for fault in vocabulary_faults(Label(label), properties, vocabulary)
        ]
    if faults:
        raise InvalidProject(
            faults,
            where=where,
            hint="wheelfit init --explain tells what may be said; nothing was written",
        )


# --- asking ----------------------------------------------------------------------------------


def _ask(arguments: Namespace, output: Output, table: ProjectTable | None) -> None:
    """Ask what the options do not say.

    :raises UsageError: nobody is there.
    """
    import sys

    from wheelfit.build.provider_guide import KNOWN_NAMESPACES, guide_to
    from wheelfit.errors import UsageError, UserError

    if output.json or sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "nothing says what to write, and nobody is there to be asked",
            hint="as wheelfit init --provider x86_64 --variant 'v3=x86_64 :: level :: v3'",
        )
    if table is not None:
        output.result(f"the table has {', '.join(table.priorities)}")
        output.result(f"and the variants {', '.join(sorted(table.variants)) or '(none)'}")
    for name in KNOWN_NAMESPACES:
        guide = guide_to(name)
        if guide is not None:
            output.result(f"  {name:<14}  {guide.purpose}")
    for name in _answer("Which of these do variants depend on? (several with blanks) ").split():
        arguments.provider.append(name)
        guide = guide_to(name)
        for line in () if guide is None else guide.lines():
            output.result(line)
    try:
        _entries(arguments, table)  # before more is asked
    except UserError as error:
        raise UsageError(error.message, hint=error.hint) from None
    while label := _answer("Label of a variant (empty: no more): "):
        properties = _answer(f"What does {label} need? (as x86_64 :: level :: v3, …) ")
        arguments.variant.append(f"{label}={properties}")


def _answer(question: str) -> str:
    import sys

    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


# --- writing ---------------------------------------------------------------------------------


def _finish(
    arguments: Namespace, output: Output, path: Path, before: bytes, after: bytes, *, asks: bool
) -> None:
    from difflib import unified_diff

    from wheelfit.operations.files import write_atomically

    old, new = (
        data.decode("utf-8-sig").replace("\r\n", "\n").splitlines() for data in (before, after)
    )
    diff = list(unified_diff(old, new, str(path), str(path), lineterm=""))
    writes = before != after and not arguments.dry_run
    if writes and before.startswith(_BOM):
        output.say("the byte order mark goes: readers of TOML refuse it", "dim")
    if asks and writes:
        _tell(output, diff)
        writes = _answer("Write it? [y/N] ").lower() in ("y", "yes")
    if writes:
        mode = _mode_of(path)
        write_atomically(str(path), after)
        path.chmod(mode)
    output.result_json(
        {
            "version": 1,
            "file": str(path),
            "changed": before != after,
            "written": writes,
            "diff": "\n".join(diff),
        }
    )
    if before == after:
        output.result(f"{path} says that already", "good")
        return
    if not asks:
        _tell(output, diff)
    if writes:
        output.result(f"{path} is written", "good")
        from wheelfit.build.table_editing import read_pyproject

        if read_pyproject(after, where=str(path))[1].get("variant", {}).get("variants"):
            output.say("wheelfit build --all builds the variants it names", "dim")
    else:
        output.result("nothing is written")


def _mode_of(path: Path) -> int:
    """Return the permissions of a file that may be written.

    :raises FileProblem: it is read-only; exchanging it would be possible, and against its owner's
        will.
    """
    import os
    from stat import S_IMODE, S_IWUSR

    from wheelfit.errors import FileProblem

    mode = S_IMODE(path.stat().st_mode)
    if not mode & S_IWUSR or not os.access(path, os.W_OK):
        raise FileProblem(
            "the file is read-only", where=str(path), hint="nothing was written; make it writable"
        )
    return mode


def _tell(output: Output, diff: Sequence[str]) -> None:
    for line in diff:
        style = {"+": "good", "-": "bad", "@": "dim"}.get(line[:1], "plain")
        output.result(line, style)  # type: ignore[arg-type]  # the styles are these
