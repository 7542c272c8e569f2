"""Wheels with another name, version or dependencies, and variants made of them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.building.index_file import write_index_files
from wheelfit.building.repack.configs import RepackConfig, WheelRule, read_config
from wheelfit.building.repack.edits import NO_EDITS, Edits
from wheelfit.building.wheel_jobs import Repack
from wheelfit.core.filename import wheel_filename_of
from wheelfit.core.labels import NULL, OLD_NULL, Label
from wheelfit.core.properties import EMPTY
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.core.variant_request import VariantRequest, choose_variant
from wheelfit.core.versions import version_of
from wheelfit.errors import UsageError
from wheelfit.operations.abi_exports import read_exports_file
from wheelfit.operations.downloads import several_at_once
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.requested_variants import (
    VariantRequestOptions,
    build_document,
    open_table,
    read_named_file,
    requested_variant,
)
from wheelfit.operations.requests import SourceOptions
from wheelfit.operations.requirements import project_name
from wheelfit.operations.rewriting import RewriteReport, RewriteRequest, find_wheels, rewrite
from wheelfit.operations.targets import named_project
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import ProjectNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.operations.context import Context


class RepackRequest(RewriteRequest, VariantRequestOptions, SourceOptions):
    """The wheels or releases to repack, their edits and their variant."""

    name: str | None = None
    rename: tuple[str, ...] = ()
    set_version: str | None = None
    strip_local_version: bool = False
    remove_dependency: tuple[str, ...] = ()
    add_dependency: tuple[str, ...] = ()
    exports: str | None = None
    config: str | None = None
    edits: str | None = None
    variant: str | None = None
    skip_unmatched: bool = False
    plan: bool = False
    index_file: bool = False
    resolve_markers: bool = False


def repack(request: RepackRequest, context: Context) -> RewriteReport:
    """Write wheels with other names, versions, dependencies or variants.

    :raises UsageError: options exclude each other, or nothing is to be changed.
    """
    _check(request)
    plan = _Plan(request, context)
    with ExitStack() as stack:
        urls: dict[Path, str] = {}
        wheels = _wheels(request, context, stack, urls)
        work = [
            (wheel, change) for wheel in wheels if (change := plan.repack_of(wheel)) is not None
        ]
        report = rewrite(work, request, context, urls=urls)
    removed = {name for wheel in report.wheels for name in wheel.removed_dependencies}
    for name in request.remove_dependency:
        if canonicalize_name(name) not in removed:
            context.reporter.warn(f"--remove-dependency {name} removed nothing")
    if not request.index_file or request.dry_run:
        return report
    folders = sorted({wheel.path.parent for wheel in report.wheels})
    written = tuple(path for folder in folders for path in write_index_files(folder))
    return replace(report, index_files=written)


def _check(request: RepackRequest) -> None:
    if request.config is None and (request.edits or request.variant):
        raise UsageError("--edits and --variant name parts of a file", hint="name it by --config")
    if request.variant and (request.property or request.label or request.null):
        raise UsageError("--variant excludes --property, --label and --null")


class _Plan:
    """The changes to each wheel, by options and by a file."""

    def __init__(self, request: RepackRequest, context: Context) -> None:
        self._request = request
        self._reporter = context.reporter
        self._table = open_table(request)
        self._requested = requested_variant(request, self._table, context.reporter)
        self._edits = _edits(request)
        self._config = _read_config(request)
        self._variants: dict[str, tuple[Label, bytes, str | None]] = {}

    def repack_of(self, wheel: Path) -> Repack | None:
        """Return the changes to a wheel; None: it is skipped.

        :raises UsageError: there are no changes.
        :raises InvalidDocument: the document of its variant breaks rules.
        """
        rule = self._rule(wheel)
        if rule is None:
            return None
        label, document = self._requested or (None, None)
        edits_name = rule.edits_name
        if rule.variant is not None:
            label, document, variant_edits = self._variant(rule.variant)
            edits_name = edits_name or variant_edits
        edits = self._merged_edits(edits_name)
        if edits == NO_EDITS and label is None and not self._request.resolve_markers:
            raise UsageError(
                f"there is nothing to change in {wheel.name}",
                hint="give edits, a variant, or a file of them (--config)",
            )
        return Repack(edits, label, document, self._request.layout, self._request.resolve_markers)

    def _rule(self, wheel: Path) -> WheelRule | None:
        request = self._request
        if self._config is None or request.edits or request.variant or not self._config.rules:
            return WheelRule("*", request.variant, request.edits)
        rule = self._config.rule_for(wheel.name)
        if rule is None and not request.skip_unmatched:
            raise UsageError(
                f"no rule of {request.config} matches {wheel.name}",
                hint="add one under [[wheels]], or skip such wheels with --skip-unmatched",
            )
        if rule is None:
            self._reporter.remark(f"{wheel.name} is skipped: no rule matches it")
        return rule

    def _variant(self, name: str) -> tuple[Label, bytes, str | None]:
        """Return label and document of a variant of the file, and the name of its edits."""
        if name not in self._variants:
            assert self._config is not None  # noqa: S101 - `_check` has refused names without a file
            variant = self._config.variant(name)
            label = NULL if variant.label == OLD_NULL else variant.label
            requested = VariantRequest(variant.properties or EMPTY, label)
            label, properties = choose_variant(requested, self._table.variants)
            document = build_document(self._request, self._table, label, properties, self._reporter)
            self._variants[name] = (label, document, variant.edits_name)
        return self._variants[name]

    def _merged_edits(self, edits_name: str | None) -> Edits:
        """Return the edits of the file joined with those of options."""
        options = self._edits
        if self._config is None or edits_name is None:
            return options
        configured = self._config.edits(edits_name)
        return replace(
            configured,
            name=options.name or configured.name,
            renames=(*options.renames, *configured.renames),
            version=options.version or configured.version,
            strip_local=options.strip_local or configured.strip_local,
            remove=options.remove | configured.remove,
            add=(*configured.add, *options.add),
            abi_exports=options.abi_exports,
        )


def _edits(request: RepackRequest) -> Edits:
    renames = [text.partition("=") for text in request.rename]
    names = [*request.remove_dependency, *([request.name] if request.name else [])]
    for old, equals, new in renames:
        if not equals:
            raise UsageError(f"--rename {old} has no new name", hint="--rename OLD=NEW")
        names += [old, new]
    for name in names:
        project_name(name)
    version = None
    if request.set_version is not None:
        version = version_of(request.set_version)
        if version is None:
            raise UsageError(f"{request.set_version!r} is not a valid version")
    for text in request.add_dependency:
        if "\n" in text or "\r" in text:
            raise UsageError(
                "--add-dependency has several lines", hint="give the option once for each"
            )
        parse_requirement(text, allow_variant_markers=True, where="--add-dependency")
    return Edits(
        name=request.name,
        renames=tuple((canonicalize_name(old), new) for old, _, new in renames),
        version=version,
        strip_local=request.strip_local_version,
        remove=frozenset(map(canonicalize_name, request.remove_dependency)),
        add=tuple(request.add_dependency),
        abi_exports=None if request.exports is None else read_exports_file(request.exports),
    )


def _read_config(request: RepackRequest) -> RepackConfig | None:
    if request.config is None:
        return None
    return read_config(read_named_file(Path(request.config)), where=request.config)


# --- wheels ---------------------------------------------------------------------------------


def _wheels(
    request: RepackRequest, context: Context, stack: ExitStack, urls: dict[Path, str]
) -> list[Path]:
    """Return the wheels of a request; those of an index are fetched first.

    :param urls: the URLs of fetched wheels are added to it, by their paths.
    """
    releases = []
    for text in request.wheels:
        release = named_project(text, request, versions_suffice=True)
        if release is not None:
            releases.append((text, release))
    names = [text for text in request.wheels if text not in dict(releases)]
    wheels = find_wheels(names) if names else []
    if releases:
        if request.output is None:
            raise UsageError("wheels of an index need an --output")
        for _, release in releases:
            fetched = _fetch(release, request, context, stack)
            urls.update(fetched)
            wheels += fetched
    return wheels


def _fetch(
    release: Requirement, request: RepackRequest, context: Context, stack: ExitStack
) -> Mapping[Path, str]:
    """Fetch all wheels of a release, and return their URLs by path."""
    request = request.with_options(no_bridges=True)  # wheels under their published names
    settings = read_settings(request, context.environ)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="wheelfit-")))
    with open_indexes(request, settings, context) as repository:
        page = repository.project(release.name)
        files = []
        for file in () if page is None else page.files:
            name = wheel_filename_of(file.filename)
            if name and release.specifier.contains(name.version, prereleases=True):
                files.append(file)
        if not files:
            raise ProjectNotFound(f"there are no wheels of {release}", where=repository.name)
        with context.reporter.transfers(repository.cancel) as transfers:
            paths = several_at_once(
                files,
                lambda file: repository.download(file, folder, transfers.transfer(file.filename)),
                transfers,
            )
    return {path: redact(file.url) for path, file in zip(paths, files, strict=True)}
