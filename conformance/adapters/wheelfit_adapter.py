"""Drive wheelfit for the conformance suite: ``PYTHON wheelfit_adapter.py``.

PYTHON is an interpreter in which wheelfit is installed. What wheelfit chooses is asked of its
command line, with releases served on the loopback interface or laid into a folder; what no
command shows is asked of its modules.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from packaging.markers import default_environment
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name
from packaging.version import Version
from suite.locks import lock_text
from suite.releases import Index, Release
from suite.serving import (
    Answer,
    Request,
    document_bytes,
    error,
    invalid,
    result,
    serve,
    unsupported,
)

import wheelfit
from wheelfit.core.abi_dependency import KnownVersion, KnownVersions
from wheelfit.core.filename import (
    index_file_name,
    parse_index_file_name,
    parse_wheel_filename,
    with_label,
)
from wheelfit.core.host_file import HostDetector
from wheelfit.core.host_file_mapping import read_host_file
from wheelfit.core.index_metadata import combine, disagreement
from wheelfit.core.labels import derive_label, parse_label, writer_faults
from wheelfit.core.markers import VariantContext, parse_marker
from wheelfit.core.metadata import read_document, write_document
from wheelfit.core.ordering import order_labels
from wheelfit.core.properties import PropertySet, parse_feature, parse_property
from wheelfit.core.property_support import support_for
from wheelfit.core.providers import (
    BuiltinProvider,
    PluginProvider,
    StaticProvider,
    effective_endpoint,
)
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.target import Target
from wheelfit.locking.document import read_lock
from wheelfit.locking.selection import LockCandidates
from wheelfit_runtime.errors import NoFit, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wheelfit.core.document import VariantDocument

AREAS = [
    "filename", "label", "property", "document", "checking", "merging", "compatibility",
    "ordering", "marker", "selection", "degradation", "provider", "abi", "lock",
]  # fmt: skip
PYTHON, MACHINE, GLIBC = "3.13.0", "x86_64", "2.28"
"""The target of every question that names no other."""

Given = dict[str, Any]


# --- what modules are asked -----------------------------------------------------------------


def _parse_wheel_filename(given: Given) -> Answer:
    name = parse_wheel_filename(given["filename"])
    number, *rest = name.build or ("",)
    return result(
        name=name.name,
        version=str(name.version),
        build=f"{number}{''.join(map(str, rest))}" if name.build else None,
        tags=sorted(map(str, name.tags)),
        label=name.label,
    )


def _parse_index_filename(given: Given) -> Answer:
    found = parse_index_file_name(given["filename"])
    if found is None:
        return invalid("no index file")
    return result(name=found[0], version=str(found[1]))


def _write_document(given: Given) -> Answer:
    document = read_document(document_bytes(given), where="the case")
    written = write_document(
        document, given.get("layout", "850"), accept_losses=given.get("accept-losses", False)
    )
    return result(text=written.decode(), document=json.loads(written))


def _merge_documents(given: Given) -> Answer:
    documents = [
        (f"wheel {number}", read_document(json.dumps(one).encode(), where=f"wheel {number}"))
        for number, one in enumerate(given["documents"])
    ]
    return _model(combine(documents))


def _wheel_agrees(given: Given) -> Answer:
    wheel = read_document(json.dumps(given["wheel"]).encode(), where="the wheel")
    index = read_document(json.dumps(given["index"]).encode(), where="the index")
    return result(agrees=disagreement(wheel, index, parse_label(given["label"])) is None)


def _model(document: VariantDocument) -> Answer:
    """Return a document in the terms of the suite."""
    found: dict[str, Any] = {
        "layout": document.layout,
        "priorities": list(document.priorities),
        "providers": {name: _provider(one) for name, one in document.providers.items()},
        "variants": {label: one.to_mapping() for label, one in document.variants.items()},
        "unusable": sorted(document.unusable),
        "noted": bool(document.notes),
        "features-first": {name: list(one) for name, one in document.feature_priorities.items()},
        "values-first": {str(name): list(one) for name, one in document.value_priorities.items()},
    }
    return {"result": found}


def _provider(provider: object) -> Given:
    match provider:
        case StaticProvider():
            lists = [[feature.name, list(feature.values)] for feature in provider.features]
            found: Given = {"kind": "static", "features": lists}
        case PluginProvider():
            found = {"kind": "plugin", "requires": list(provider.requires)}
            if provider.plugin_api is not None:
                found["plugin-api"] = provider.plugin_api
        case BuiltinProvider():
            found = {"kind": "builtin", "name": provider.name}
        case _:
            return {"kind": "unusable"}
    if provider.optional:
        found["optional"] = True
    if provider.enabled_by is not None:
        found["enable-if"] = provider.enabled_by
    return found


def _context(given: Given) -> VariantContext:
    """Return what markers see of a wheel: its label and what is supported (F-103)."""
    label = given["label"]
    declared: Given = given.get("properties", {})
    supported: Given = given.get("supported") or declared
    if not declared:
        return VariantContext(label, PropertySet())
    document = read_document(
        {
            "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
            "default-priorities": {"namespace": sorted(declared)},
            "providers": {
                name: {
                    "static-properties": supported.get(name, {}),
                    **({"feature-order": list(supported[name])} if supported.get(name) else {}),
                }
                for name in declared
            },
            "variants": {label: declared},
        },
        where="the case",
    )
    support = support_for(document, None, environment={})
    return VariantContext(label, support.filter(PropertySet.from_mapping(declared)))


def _evaluate_marker(given: Given) -> Answer:
    marker = parse_marker(given["marker"])
    environment = given.get("environment", {})
    return result(value=marker.evaluate(environment, given.get("extra", ""), _context(given)))


def _marker_environment(given: Given) -> Answer:
    context = _context(given)
    properties = context.properties
    return result(
        variant_label=context.label,
        variant_properties=sorted(map(str, properties)),
        variant_features=sorted(str(feature) for feature, _ in properties.features()),
        variant_namespaces=sorted(properties.namespaces),
    )


def _resolve_marker(given: Given) -> Answer:
    context = VariantContext(given["label"], PropertySet.from_mapping(given.get("properties", {})))
    left = parse_marker(given["marker"]).resolve_variants(context, filtered=False)
    return result(decided=left if isinstance(left, bool) else None)


def _parse_requirement(given: Given) -> Answer:
    parse_requirement(given["requirement"], allow_variant_markers=given["place"] == "wheel")
    return result(accepted=True)


def _plugin_endpoint(given: Given) -> Answer:
    document = read_document(
        {
            "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
            "default-priorities": {"namespace": ["a"]},
            "providers": {"a": given["provider"]},
            "variants": {"null": {}},
        },
        where="the case",
    )
    provider = document.providers["a"]
    if not isinstance(provider, PluginProvider):
        return invalid("no plugin")
    return result(endpoint=effective_endpoint(provider, given.get("environment", {})))


def _order_for_versions(given: Given) -> list[str]:
    """Order labels where versions of other packages are known; no command takes such versions."""
    versions = {
        canonicalize_name(name): KnownVersion(Version(version))
        for name, version in given["target"]["versions"].items()
    }
    document = read_document(json.dumps(given["document"]).encode(), where="the case")
    support = support_for(document, None, environment={}, known=KnownVersions(versions))
    return [ranked.label for ranked in order_labels(document, support)]


def _read_lock(given: Given) -> Answer:
    lock = read_lock(given["text"].encode(), where="the case")
    return result(
        packages=[
            {
                "name": package.name,
                "labels": [wheel.filename.label for wheel in package.wheels],
                "described": (
                    None if package.document is None else sorted(package.document.variants)
                ),
            }
            for package in lock.packages
        ]
    )


def _marker_value(item: tuple[str, object]) -> tuple[str, str]:
    return item[0], str(item[1])


def _select_from_lock(given: Given) -> Answer:
    def locate(name: str) -> Given:
        return {"url": f"https://files.example/{name}", "hashes": {"sha256": "0" * 64}}

    lock = read_lock(lock_text(given, locate).encode(), where="the case")
    file = read_host_file(tomllib.loads(_host_file(given.get("target", {}))), "the target")
    here = Target.of("here", dict(map(_marker_value, default_environment().items())), sys_tags())
    choice = LockCandidates(
        lock, file.target(here, "the target"), None, host_detector=HostDetector(file, "the target")
    )
    try:
        selection = choice.select()
    except NoFit as reason:
        return invalid(reason)
    return result(
        chosen={
            one.package.name: one.choice.selection.chosen.text
            for one in selection.chosen
            if one.choice.selection.chosen
        }
    )


def _property(given: Given) -> Answer:
    found = parse_property(given["text"])
    return result(
        namespace=found.namespace, feature=found.feature, value=found.value, text=str(found)
    )


def _feature(given: Given) -> Answer:
    found = parse_feature(given["text"])
    return result(namespace=found.namespace, feature=found.name, text=str(found))


def _write_label(given: Given) -> Answer:
    label = parse_label(given["label"])
    if faults := writer_faults(label):
        return invalid(faults[0])
    return result(filename=str(with_label(parse_wheel_filename(given["filename"]), label)))


MODULES: Mapping[str, Callable[[Given], Answer]] = {
    "parse-wheel-filename": _parse_wheel_filename,
    "print-wheel-filename": lambda given: result(
        filename=str(parse_wheel_filename(given["filename"]))
    ),
    "parse-index-filename": _parse_index_filename,
    "print-index-filename": lambda given: result(
        filename=index_file_name(given["name"], Version(given["version"]))
    ),
    "parse-property": _property,
    "parse-feature": _feature,
    "parse-label": lambda given: result(label=parse_label(given["label"])),
    "write-label": _write_label,
    "derive-label": lambda given: result(
        label=derive_label(PropertySet(map(parse_property, given["properties"])))
    ),
    "read-document": lambda given: _model(
        read_document(document_bytes(given), where="the case", **given.get("options", {}))
    ),
    "write-document": _write_document,
    "merge-documents": _merge_documents,
    "wheel-agrees": _wheel_agrees,
    "evaluate-marker": _evaluate_marker,
    "marker-environment": _marker_environment,
    "resolve-marker": _resolve_marker,
    "parse-requirement": _parse_requirement,
    "plugin-endpoint": _plugin_endpoint,
    "read-lock": _read_lock,
    "select-from-lock": _select_from_lock,
}
VERSIONS: Mapping[str, Callable[[Given], Answer]] = {
    "order-labels": lambda given: result(order=_order_for_versions(given)),
    "is-compatible": lambda given: result(compatible=bool(_order_for_versions(given))),
}
"""Questions about targets of which ``versions`` are known."""


def _module_for(request: Request) -> Callable[[Given], Answer] | None:
    question = request["question"]
    if "versions" in request["input"].get("target", {}):
        return VERSIONS[question]
    return MODULES.get(question)


def _ask_module(module: Callable[[Given], Answer], given: Given) -> Answer:
    try:
        return module(given)
    except WheelfitError as refusal:
        return invalid(refusal)
    except Exception as failure:  # noqa: BLE001 - a crash is an answer too
        return error(f"{type(failure).__name__}: {failure}")


# --- what the command line is asked ---------------------------------------------------------


def _as_selection(request: Request, number: int) -> Given:
    """Return what ``select`` would be asked, for the questions about labels alone."""
    given = request["input"]
    if request["question"] in ("select", "install", "dependencies"):
        return dict(given)
    if request["question"] == "given-wheel":
        return {**given, "wheels": [_given_entry(given)], "document": None}
    labels = given["document"]["variants"]
    name = f"labels{number}"
    return {**given, "wheels": [f"{name}-1.0-py3-none-any-{label}.whl" for label in labels]}


def _given_entry(given: Given) -> Given:
    entry = {"filename": given["filename"]}
    return {**entry, "document": given["document"]} if "document" in given else entry


class _CommandLine:
    """Ask ``wheelfit explain`` and ``wheelfit install --dry-run`` about releases."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def answers(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Answer]]:
        yield from self.check([one for one in requests if one["question"] in CHECKED])
        together = [one for one in requests if one["question"] in COMMAND_LINE]
        for request in requests:
            if request["question"] == "resolve":
                yield request, self.resolve(request["input"])
        rows = [(one, _as_selection(one, number)) for number, one in enumerate(together)]
        rows.sort(key=lambda row: _group(*row))
        for _, group in groupby(rows, key=lambda row: _group(*row)):
            yield from self._ask_together(list(group))

    def _ask_together(self, rows: list[tuple[Request, Given]]) -> Iterator[tuple[Request, Answer]]:
        """Ask about many releases at once; where one spoils it for the others, in halves."""
        found = self._run(rows)
        if isinstance(found, dict) and len(rows) > 1:
            middle = len(rows) // 2
            yield from self._ask_together(rows[:middle])
            yield from self._ask_together(rows[middle:])
        elif isinstance(found, dict):
            yield rows[0][0], found
        else:
            for (request, _), answer in zip(rows, found, strict=True):
                yield request, answer

    def _run(self, rows: list[tuple[Request, Given]]) -> list[Answer] | Answer:
        """Return an answer for each; or one for all when there is no result."""
        releases = [Release.of(given) for _, given in rows]
        request, given = rows[0]
        others = [
            Release.of({"wheels": [other]}) for _, one in rows for other in one.get("others", ())
        ]
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir()
        target = given.get("target", {})
        words = [*_options(given.get("options", {})), *_machine(target, place)]
        names = [release.name for release in releases]
        question = request["question"]
        command = ["explain"]
        if question in ("install", "dependencies"):
            command = ["install", "--target", str(place / "target")]
            command += ["--dry-run"] if question == "dependencies" else []
        if question == "given-wheel":
            for release in releases:
                release.write(place)
            wheels = [str(place / one["filename"]) for _, one in rows]
            found = self._wheelfit(*command, "--no-index", *words, *wheels, target=target)
        elif given.get("from") == "folder":
            shelf = place / "wheels"
            shelf.mkdir()
            for release in (*releases, *others):
                release.write(shelf)
            found = self._wheelfit(
                *command, "--no-index", "-f", str(shelf), *words, *names, target=target
            )
        else:
            with Index([*releases, *others]) as index:
                found = self._wheelfit(*command, "-i", index.url, *words, *names, target=target)
        if isinstance(found, str):
            return error(found)
        if "error" in found:
            refused = found["error"]["message"]
            return result(accepted=False) if question == "given-wheel" else invalid(refused)
        if question == "dependencies":
            return self._dependencies(rows, found)
        if question == "install":
            installed = {entry["name"]: entry["filename"] for entry in found["install"]}
            return [result(installed=installed.get(name)) for name in names]
        projects = {project["name"]: project for project in found["projects"]}
        return [
            _selected(one["question"], projects[name])
            for (one, _), name in zip(rows, names, strict=True)
        ]

    def check(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Answer]]:
        """Ask ``wheelfit check`` about files and folders, all at once."""
        place = self._folder / "checked"
        for number, request in enumerate(requests):
            folder = place / f"case{number:04}"
            folder.mkdir(parents=True)
            if request["question"] == "check-release":
                Release.of(request["input"]).write(folder)
            else:
                path = folder / f"document{number}-1.0-variants.json"
                path.write_bytes(document_bytes(request["input"]))
        found = self._wheelfit("check", "--no-index", str(place), target={}) if requests else ""
        faults: dict[str, int] = {}
        for finding in [] if isinstance(found, str) else found.get("findings", ()):
            if finding["severity"] == "error":
                name = Path(finding["where"]).parent.name
                faults[name] = faults.get(name, 0) + 1
        for number, request in enumerate(requests):
            if isinstance(found, str) or "findings" not in found:
                yield request, error(found)
            else:
                count = faults.get(f"case{number:04}", 0)
                yield request, result(valid=not count, several=count > 1)

    def resolve(self, given: Given) -> Answer:
        """Resolve several projects together."""
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir()
        target = given.get("target", {})
        words = ["--dry-run", "--target", str(place / "target"), *_machine(target, place)]
        words += _options(given.get("options", {}))
        with Index([Release.of(one) for one in given["projects"]]) as index:
            found = self._wheelfit(
                "install", "-i", index.url, *words, *given["request"], target=target
            )
        if isinstance(found, str):
            return error(found)
        if "error" in found:
            return invalid(found["error"]["message"])
        return result(chosen={entry["name"]: entry["filename"] for entry in found["install"]})

    @staticmethod
    def _dependencies(rows: list[tuple[Request, Given]], found: Given) -> list[Answer]:
        installed = {entry["name"] for entry in found["install"]}
        return [
            result(
                dependencies=sorted(
                    installed & {other.split("-")[0] for other in given.get("others", ())}
                )
            )
            for _, given in rows
        ]

    def _wheelfit(self, command: str, *words: str, target: Given) -> Given | str:
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        settings = {"HOME": str(self._folder), "PIP_CONFIG_FILE": os.devnull}
        done = subprocess.run(
            [sys.executable, "-m", "wheelfit", command, "--json", "--no-cache-dir", *words],
            env={**kept, **settings, **target.get("environment", {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            return f"status {done.returncode}: {done.stderr.strip()[-500:]}"


def _group(request: Request, given: Given) -> str:
    """Return what questions must share to be asked together."""
    parts = [given.get(name) for name in ("target", "options", "from")]
    command = request["question"] if request["question"] in ALONE else "explain"
    return json.dumps([command, *parts], sort_keys=True)


def _selected(question: str, project: Given) -> Answer:
    fitting = [one for one in project["candidates"] if one["verdict"] != "rejected"]
    labels = [one["label"] for one in fitting]
    if question == "order-labels":
        return result(order=labels)
    if question == "given-wheel":
        return result(accepted=bool(fitting))
    if question == "is-compatible":
        return result(compatible=bool(labels))
    reasons = {
        one["filename"]: one["reason"]
        for one in project["candidates"]
        if one["verdict"] == "rejected"
    }
    return result(
        chosen=fitting[0]["filename"] if fitting else None,
        order=[one["filename"] for one in fitting],
        told=bool(project["warnings"] or project["notes"]),
        explained=all(reasons.values()),
    )


def _options(options: Given) -> list[str]:
    words = [f"--{name}" for name in ("strict", "no-variants") if options.get(name)]
    for name in ("prefer", "require", "forbid", "label"):
        for value in options.get(name, ()):
            words += [f"--{name}", value]
    for option, name in (("enable", "--enable-provider"), ("disable", "--disable-provider")):
        for value in options.get(option, ()):
            words += [name, value]
    return words


def _machine(target: Given, folder: Path) -> list[str]:
    """Write a host file for the target; none is needed for this machine."""
    if target.get("here"):
        return []
    path = folder / "host.toml"
    path.write_text(_host_file(target), encoding="utf-8")
    return ["--for", str(path)]


def _host_file(target: Given) -> str:
    lines = ["[metadata]", 'created-by = "conformance"', 'version = "0.1"', "[interpreter]"]
    lines += [f'version = "{target.get("python", PYTHON)}"', "[platform]"]
    lines += [f'machine = "{target.get("machine", MACHINE)}"']
    lines += [f'glibc = "{target.get("glibc", GLIBC)}"']
    for namespace, features in target.get("supported", {}).items():
        lines += ["[[provider]]", f'namespace = "{namespace}"']
        lines += [f"feature-order = {json.dumps(list(features))}", "[provider.properties]"]
        lines += [f"{feature} = {json.dumps(values)}" for feature, values in features.items()]
    return "\n".join(lines) + "\n"


ALONE = frozenset(["install", "dependencies", "given-wheel"])
"""Questions that are not put to ``wheelfit explain`` about an index or a folder."""
CHECKED = frozenset(["check-document", "check-release"])
"""Questions for ``wheelfit check``."""
COMMAND_LINE = ALONE | {"select", "order-labels", "is-compatible"}


def answers(requests: list[Request]) -> Iterator[tuple[Request, Answer]]:
    """Answer every question, those about modules first."""
    asked = []
    for request in requests:
        module = _module_for(request)
        if module is not None:
            yield request, _ask_module(module, request["input"])
        elif request["question"] in COMMAND_LINE | CHECKED | {"resolve"}:
            asked.append(request)
        else:
            yield request, unsupported("wheelfit does not show this")
    with tempfile.TemporaryDirectory() as folder:
        yield from _CommandLine(Path(folder)).answers(asked)


if __name__ == "__main__":
    serve("wheelfit", wheelfit.__version__, AREAS, answers)
