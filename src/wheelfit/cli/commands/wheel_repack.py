"""Edit name, version and dependencies of wheels, and make variants of them.

A SOURCE is a wheel, a folder of wheels, or a release of an index: `torch==2.10.0` means all its
wheels, which are fetched. What is edited say options, or a file (--config) of our own shape or of
variant-repack's, whose parts have names. Everything else stays as it is, byte by byte: METADATA is
edited line by line, dependencies are found by their exact names, and top-level packages are never
renamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.wheels import DOCUMENT, EDITS, REPACK, RESOLVING, RESULTS, VARIANT
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from wheelfit.build.repack.configs import RepackConfig, WheelRule
    from wheelfit.build.repack.edits import Edits
    from wheelfit.build.wheel_jobs import Done, Repack
    from wheelfit.cli.output import Output
    from wheelfit.core.labels import Label
    from wheelfit.core.project_table import ProjectTable
    from wheelfit.core.requirements import Requirement


OPTIONS = (REPACK, EDITS, VARIANT, DOCUMENT, RESOLVING, RESULTS, WORKERS, SOURCES)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write the wheels; 9 if some could not be written and --keep-going was given."""
    from contextlib import ExitStack

    from wheelfit.cli.wheel_work import carry_out

    _check(arguments)
    plan = _Plan(arguments, output)
    with ExitStack() as stack:
        called: dict[Path, str] = {}
        wheels = _wheels(arguments, output, environ, stack, called)
        work = [(wheel, act) for wheel in wheels if (act := plan.act_for(wheel)) is not None]
        return carry_out(
            work,
            arguments,
            output,
            environ,
            more=lambda done: _index_files(done, arguments),
            called=called,
        )


def _check(arguments: Namespace) -> None:
    from wheelfit.errors import UsageError

    if arguments.config is None and (arguments.edits or arguments.variant):
        raise UsageError("--edits and --variant name parts of a file", hint="name it by --config")
    if arguments.variant and (arguments.property or arguments.label or arguments.null):
        raise UsageError("--variant says what --property, --label and --null would")


def _index_files(done: Sequence[Done], arguments: Namespace) -> Mapping[str, object]:
    """Write the index files of the folders with results, if that is wanted."""
    from wheelfit.build.index_file import write_index_files

    if not arguments.index_file or arguments.dry_run:
        return {}
    folders = sorted({one.path.parent for one in done})
    return {"index_files": [str(path) for one in folders for path in write_index_files(one)]}


class _Plan:
    """Say what is done to each wheel, as options and a file have it."""

    def __init__(self, arguments: Namespace, output: Output) -> None:
        from wheelfit.cli.wheel_asked import asked_variant, open_table

        self._arguments = arguments
        self._output = output
        self._table: ProjectTable = open_table(arguments)
        self._asked = asked_variant(arguments, self._table, output)
        self._edits = _edits(arguments)
        self._config = _read_config(arguments)
        self._known: dict[str, tuple[Label, bytes, str | None]] = {}

    def act_for(self, wheel: Path) -> Repack | None:
        """Return what is done to a wheel; None if it is left out.

        :param wheel: its path.
        :raises UsageError: nothing says what to do.
        :raises InvalidDocument: its document may not be written.
        """
        from wheelfit.build.repack.edits import NOTHING
        from wheelfit.build.wheel_jobs import Repack
        from wheelfit.errors import UsageError

        rule = self._rule(wheel)
        if rule is None:
            return None
        label, document = self._asked if self._asked is not None else (None, None)
        named = rule.metadata
        if rule.variant is not None:
            label, document, own = self._variant(rule.variant)
            named = named or own
        edits = self._merged(named)
        if edits == NOTHING and label is None and not self._arguments.resolve_markers:
            raise UsageError(
                f"nothing is to be done to {wheel.name}",
                hint="give edits, a variant, or a file of them (--config)",
            )
        return Repack(
            edits, label, document, self._arguments.layout, self._arguments.resolve_markers
        )

    def _rule(self, wheel: Path) -> WheelRule | None:
        from wheelfit.build.repack.configs import WheelRule
        from wheelfit.errors import UsageError

        arguments = self._arguments
        if self._config is None or arguments.edits or arguments.variant or not self._config.rules:
            return WheelRule("*", arguments.variant, arguments.edits)
        rule = self._config.rule_for(wheel.name)
        if rule is None and not arguments.skip_unmatched:
            raise UsageError(
                f"no rule of {arguments.config} is for {wheel.name}",
                hint="add one under [[wheels]], or leave such wheels out with --skip-unmatched",
            )
        if rule is None:
            self._output.say(f"{wheel.name} is left out: no rule is for it")
        return rule

    def _variant(self, name: str) -> tuple[Label, bytes, str | None]:
        """Return label and document of a variant of the file, and which edits go with it."""
        from wheelfit.cli.wheel_asked import document_of
        from wheelfit.core.labels import NULL, OLD_NULL
        from wheelfit.core.properties import EMPTY
        from wheelfit.core.variant_request import VariantRequest, choose_variant

        if name not in self._known:
            assert self._config is not None  # noqa: S101 - who names one has given the file
            found = self._config.variant(name)
            label = NULL if found.label == OLD_NULL else found.label
            request = VariantRequest(found.properties or EMPTY, label)
            label, properties = choose_variant(request, self._table.variants)
            document = document_of(self._arguments, self._table, label, properties, self._output)
            self._known[name] = (label, document, found.metadata)
        return self._known[name]

    def _merged(self, named: str | None) -> Edits:
        """Return the edits of the file, and those of options besides."""
        from dataclasses import replace

        own = self._edits
        if self._config is None or named is None:
            return own
        file = self._config.edits(named)
        return replace(
            file,
            name=own.name or file.name,
            renames=(*own.renames, *file.renames),
            version=own.version or file.version,
            strip_local=own.strip_local or file.strip_local,
            remove=own.remove | file.remove,
            add=(*file.add, *own.add),
        )


def _edits(arguments: Namespace) -> Edits:
    """Return what options say is edited."""
    from packaging.utils import InvalidName, canonicalize_name
    from packaging.version import InvalidVersion

    from wheelfit.build.repack.edits import Edits
    from wheelfit.core.requirements import parse_requirement
    from wheelfit.core.versions import parse_version
    from wheelfit.errors import UsageError

    renames = [text.partition("=") for text in arguments.rename]
    names = [*arguments.remove_dependency, *([arguments.name] if arguments.name else [])]
    for old, equals, new in renames:
        if not equals:
            raise UsageError(f"--rename {old} has no new name", hint="--rename OLD=NEW")
        names += [old, new]
    for name in names:
        try:
            canonicalize_name(name, validate=True)
        except InvalidName:
            raise UsageError(f"{name!r} is not a valid project name") from None
    version = None
    if arguments.set_version is not None:
        try:
            version = parse_version(arguments.set_version)
        except InvalidVersion:
            raise UsageError(f"{arguments.set_version!r} is not a valid version") from None
    for text in arguments.add_dependency:
        if "\n" in text or "\r" in text:
            raise UsageError("a dependency is one line")
        parse_requirement(text, allow_variant_markers=True, where="--add-dependency")
    return Edits(
        name=arguments.name,
        renames=tuple((canonicalize_name(old), new) for old, _, new in renames),
        version=version,
        strip_local=arguments.strip_local_version,
        remove=frozenset(map(canonicalize_name, arguments.remove_dependency)),
        add=tuple(arguments.add_dependency),
    )


def _read_config(arguments: Namespace) -> RepackConfig | None:
    from pathlib import Path

    from wheelfit.build.repack.configs import read_config
    from wheelfit.cli.wheel_asked import read_named_file

    if arguments.config is None:
        return None
    return read_config(read_named_file(Path(arguments.config)), where=arguments.config)


# --- wheels ---------------------------------------------------------------------------------


def _wheels(
    arguments: Namespace,
    output: Output,
    environ: Mapping[str, str],
    stack: ExitStack,
    called: dict[Path, str],
) -> list[Path]:
    """Return the wheels that are meant; those of an index are fetched first.

    :param called: gets the URLs of those.
    """
    from wheelfit.cli.wheel_work import find_wheels
    from wheelfit.errors import UsageError
    from wheelfit.operations.targets import named_project

    releases = []
    for text in arguments.wheels:
        found = named_project(text, arguments, versions_suffice=True)
        if found is not None:
            releases.append((text, found))
    names = [text for text in arguments.wheels if text not in dict(releases)]
    wheels = find_wheels(names) if names else []
    if releases:
        if arguments.output is None:
            raise UsageError("wheels of an index need an --output")
        for _, release in releases:
            fetched = _fetched(release, arguments, output, environ, stack)
            called.update(fetched)
            wheels += fetched
    return wheels


def _fetched(
    release: Requirement,
    arguments: Namespace,
    output: Output,
    environ: Mapping[str, str],
    stack: ExitStack,
) -> Mapping[Path, str]:
    """Fetch all wheels of a release, and return their URLs by where they are."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from wheelfit.cli.progress import Bars
    from wheelfit.core.filename import parse_wheel_filename
    from wheelfit.errors import InvalidFilename, ProjectNotFound
    from wheelfit.operations.downloads import several_at_once
    from wheelfit.operations.indexes import open_indexes, read_settings
    from wheelfit.sources.urls import redact

    arguments.no_bridges = True  # every project as what it is
    settings = read_settings(arguments, environ)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="wheelfit-")))
    with open_indexes(arguments, settings, environ, output) as repository:
        page = repository.project(release.name)
        files = []
        for file in () if page is None else page.files:
            try:
                name = parse_wheel_filename(file.filename)
            except InvalidFilename:
                continue
            if release.specifier.contains(name.version, prereleases=True):
                files.append(file)
        if not files:
            raise ProjectNotFound(f"there are no wheels of {release}", where=repository.name)
        with Bars(output) as bars:
            paths = several_at_once(
                files,
                lambda file: repository.download(file, folder, bars.transfer(file.filename)),
                bars,
            )
    return {path: redact(file.url) for path, file in zip(paths, files, strict=True)}
