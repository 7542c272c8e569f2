"""The generation of static indexes from folders of wheels."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.checking.findings import Report
from wheelfit.errors import UsageError
from wheelfit.operations.plain_data import plain_report
from wheelfit.operations.requests import ValidatedRequest
from wheelfit.operations.whole_index import open_target
from wheelfit.server.generate.last_run import LastRun, fingerprint
from wheelfit.server.generate.request import GenerateOptions, GenerateResult
from wheelfit.server.generate.targets import FILES, SIMPLE, Target
from wheelfit.sources.urls import parse_public_url
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from wheelfit.operations.context import Context


class GenerateIndexRequest(ValidatedRequest):
    """The folder of wheels, and the target of the index."""

    folder: str
    to: str | None = None
    release: tuple[str, ...] = ()
    keep_going: bool = False
    full: bool = False
    replace: bool = False
    prune: bool = False
    allow_empty: bool = False
    site: bool = False
    public_url: str | None = None


@dataclass(frozen=True, slots=True)
class GeneratedIndex:
    """The result of a generation, which is not published if a file was refused."""

    folder: str
    """As the user named it."""
    target: str
    """The name of the target."""
    generated: GenerateResult

    @property
    def refused(self) -> Report:
        """The wheels that no index would accept."""
        return Report.of(self.generated.refused)

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        generated = self.generated
        return plain_report(
            generated,
            "projects releases files hashed excluded written removed unreferenced",
            folder=self.folder,
            target=self.target,
            published=generated.is_published,
            findings=generated.refused,
        )


def generate_index(request: GenerateIndexRequest, context: Context) -> GeneratedIndex:
    """Generate an index and publish it.

    :raises FileProblem: there is no such folder.
    :raises UsageError: the target, a release or the public URL cannot be used.
    """
    folder = Path(request.folder)
    if not folder.is_dir():
        raise FileProblem(
            "the folder does not exist", where=request.folder, hint="name a folder of wheels"
        )
    if request.public_url is not None:
        try:
            parse_public_url(request.public_url)
        except ValueError as error:
            raise UsageError(f"--public-url: {error}") from None
    target, target_folder = open_target(request.to or request.folder)
    if request.to and target_folder is not None and target_folder.name == SIMPLE:
        raise UsageError(
            f"the pages would be written to {target_folder / SIMPLE}",
            hint=f"name the folder above: --to {target_folder.parent}",
        )
    if request.site:
        from wheelfit.server.site.static_pages import check_pages

        with target.lock():
            check_pages(target)  # before anything is published
    generated = _generate(request, folder, target, target_folder, context)
    if request.site and generated.is_published:
        generated = _with_site(generated, request, target)
    return GeneratedIndex(request.folder, target.name, generated)


def _generate(
    request: GenerateIndexRequest,
    folder: Path,
    target: Target,
    target_folder: Path | None,
    context: Context,
) -> GenerateResult:
    """Generate the index, unless it is up to date since the last run."""
    options = GenerateOptions(
        frozenset(map(_parse_release, request.release)),
        keep_going=request.keep_going,
        replace=request.replace,
        prune=request.prune,
        allow_empty=request.allow_empty,
        check_content=request.full,
    )
    if target_folder is not None:
        facts_file = target_folder / SIMPLE / ".facts.json"
    else:
        facts_file = folder / ".wheelfit-facts.json"
    in_place = target_folder is not None and target_folder.resolve() == folder.resolve()
    excluded = _output_folders(folder, None if in_place else target_folder)
    current = fingerprint(folder, options, in_place=in_place, excluded=excluded)
    last_run = LastRun(facts_file, current)
    generated = last_run.reusable_result(target)
    if generated is not None:
        return generated
    # Imported only now, since most runs of a schedule find nothing to do.
    from wheelfit.server.generate.file_facts import FactsCache
    from wheelfit.server.generate.generation import generate

    with context.reporter.work("reading") as progress:
        return generate(
            folder,
            target,
            FactsCache(facts_file, check_content=request.full),
            options,
            in_place=in_place,
            excluded=excluded,
            progress=progress,
            last_run=last_run,
        )


def _output_folders(folder: Path, target_folder: Path | None) -> frozenset[Path]:
    """Return the folders with the output of earlier runs, which are not read."""
    output = {folder / SIMPLE}
    if target_folder is not None:
        with suppress(ValueError):  # it is not inside the folder
            inside = folder / target_folder.resolve().relative_to(folder.resolve())
            output |= {inside / SIMPLE, inside / FILES}
    return frozenset(output)


def _with_site(
    generated: GenerateResult, request: GenerateIndexRequest, target: Target
) -> GenerateResult:
    """Write the pages for people beside the index; return the index with them."""
    from wheelfit.server.generate.publishing import PublishedIndex
    from wheelfit.server.site.static_pages import publish_pages

    with target.lock():
        index = PublishedIndex(target)
        written = publish_pages(index, target, public_url=request.public_url)
    return replace(generated, written=(*generated.written, *written))


def _parse_release(text: str) -> tuple[NormalizedName, Version]:
    """Parse the name and version of a release, such as ``torch==2.8.0``."""
    name, _, version = text.partition("==")
    try:
        parsed = Version(version)
    except InvalidVersion:
        message = f"{text!r} is not a release"
        raise UsageError(message, hint="write --release torch==2.8.0") from None
    return canonicalize_name(name.strip()), parsed
