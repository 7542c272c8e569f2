"""Make a static index of a folder of wheels, which any web server or object store can offer.

All wheels and source distributions in DIR and the folders in it are listed, in HTML and JSON, with
hashes, sizes, upload times and the metadata of each wheel; for each release with variants its
-variants.json is combined from the wheels. Without --to the pages go into DIR/simple and the
files stay where they are.

FILE.yanked beside a file, or NAME-VERSION.yanked, yanks it for the reason that is written in it;
FILE.provenance is passed on. What no index would take is refused with all reasons, and nothing is
published then unless --keep-going is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import GENERATE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from pathlib import Path

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.cli.output import Output
    from wheelfit.server.generate.targets import Target
    from wheelfit.server.generate.wishes import Generated
    from wheelfit.sources.page import OtherPages


OPTIONS = (GENERATE,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Generate the index; the exit code is 9 if something was refused."""
    del environ
    from pathlib import Path

    from wheelfit.cli.render.check import FAULTS
    from wheelfit.errors import FileProblem, UsageError
    from wheelfit.operations.index_targets import open_target
    from wheelfit.server.generate.targets import SIMPLE

    folder = Path(arguments.folder)
    if not folder.is_dir():
        raise FileProblem(
            "there is no such folder", where=arguments.folder, hint="name a folder of wheels"
        )
    if not (arguments.public_url or "https://").startswith(("https://", "http://")):
        raise UsageError(
            "--public-url is no address of a server", hint="as https://wheels.example.org"
        )
    target, place = open_target(arguments.to or arguments.folder)
    if arguments.to and place is not None and place.name == SIMPLE:
        raise UsageError(
            f"the pages would go into {place / SIMPLE}",
            hint=f"name the folder above: --to {place.parent}",
        )
    if arguments.site:
        from wheelfit.server.site.static_pages import check_pages

        with target.opened():
            check_pages(target)  # before anything is published
    generated = _generate(arguments, folder, target, place, output)
    if arguments.site and generated.is_published:
        generated = _with_site(generated, arguments, target)
    _tell(generated, arguments, target, output)
    return FAULTS if generated.refused else 0


def _generate(
    arguments: Namespace, folder: Path, target: Target, place: Path | None, output: Output
) -> Generated:
    """Generate the index, unless the last run has left it as it would be.

    :param place: the target, if it is a folder of this machine.
    """
    from pathlib import Path

    from wheelfit.server.generate.last_run import LastRun, fingerprint
    from wheelfit.server.generate.targets import SIMPLE
    from wheelfit.server.generate.wishes import Wishes

    wishes = Wishes(
        frozenset(map(_release, arguments.release)),
        keep_going=arguments.keep_going,
        replace=arguments.replace,
        prune=arguments.prune,
        allow_empty=arguments.allow_empty,
        full=arguments.full,
        elsewhere=_elsewhere(arguments),
    )
    if arguments.memory:
        memory = Path(arguments.memory)
    elif place is not None:
        memory = place / SIMPLE / ".facts.json"
    else:
        memory = folder / ".wheelfit-facts.json"
    in_place = place is not None and place.absolute() == folder.absolute()
    without = _left_out(folder, None if in_place else place)
    seen = fingerprint(folder, wishes, in_place=in_place, without=without)
    last_run = LastRun(memory, seen)
    generated = last_run.still_stands(target)
    if generated is not None:
        return generated
    from wheelfit.server.generate.generation import generate
    from wheelfit.server.generate.memory import Memory

    with output.work("reading") as bar:
        return generate(
            folder,
            target,
            Memory(memory, full=arguments.full),
            wishes,
            in_place=in_place,
            without=without,
            progress=bar,
            last_run=last_run,
        )


def _elsewhere(arguments: Namespace) -> dict[str, OtherPages]:
    """Read what ``--tracks`` and ``--alternate`` say."""
    from packaging.utils import canonicalize_name

    from wheelfit.sources.page import OtherPages, check_page_url

    found: dict[str, dict[str, list[str]]] = {}
    for flag, texts in (("tracks", arguments.tracks), ("alternate", arguments.alternate)):
        for text in texts:
            name, _, url = text.partition("=")
            check_page_url(url, where=f"--{flag} {text}")
            project = found.setdefault(canonicalize_name(name), {"tracks": [], "alternate": []})
            project[flag].append(url)
    return {
        name: OtherPages(tuple(said["tracks"]), tuple(said["alternate"]))
        for name, said in found.items()
    }


def _left_out(folder: Path, place: Path | None) -> frozenset[Path]:
    """Return the folders that are not looked into: what was generated before."""
    from contextlib import suppress

    from wheelfit.server.generate.targets import FILES, SIMPLE

    without = {folder / SIMPLE}
    if place is not None:
        # It may be inside the folder; what is walked through is named below the folder's name.
        with suppress(ValueError):
            inside = folder / place.absolute().relative_to(folder.absolute())
            without |= {inside / SIMPLE, inside / FILES}
    return frozenset(without)


def _with_site(generated: Generated, arguments: Namespace, target: Target) -> Generated:
    """Write the pages for people beside the index; return what was written besides."""
    from dataclasses import replace

    from wheelfit.server.generate.published import PublishedIndex
    from wheelfit.server.site.static_pages import publish_pages

    with target.opened():
        url = arguments.public_url
        written = publish_pages(PublishedIndex(target), target, public_url=url)
    return replace(generated, written=(*generated.written, *written))


def _release(text: str) -> tuple[NormalizedName, Version]:
    """Read what ``--release`` names."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    from wheelfit.errors import UsageError

    name, _, version = text.partition("==")
    try:
        parsed = Version(version)
    except InvalidVersion:
        raise UsageError(f"{text!r} is no release", hint="write --release torch==2.8.0") from None
    return canonicalize_name(name.strip()), parsed


def _tell(generated: Generated, arguments: Namespace, target: Target, output: Output) -> None:
    from wheelfit.wording import count_of

    output.result_json(
        {
            "version": 1,
            "folder": arguments.folder,
            "target": target.name,
            "published": generated.is_published,
            "projects": generated.projects,
            "releases": generated.releases,
            "files": generated.files,
            "looked_at": generated.looked_at,
            "findings": [one.to_mapping() for one in generated.refused],
            "left_out": list(generated.left_out),
            "written": list(generated.written),
            "removed": list(generated.removed),
            "unnamed": generated.unnamed,
        }
    )
    for note in generated.notes:
        output.warn(note)
    if generated.refused:
        from wheelfit.check.findings import Count, Report
        from wheelfit.cli.render.check import report_lines

        report = Report.of(generated.refused, (), Count())
        for line, style in report_lines(report, verbose=output.verbosity > 0):
            output.result(line, style)
        output.result()
    if not generated.is_published:
        output.result("nothing is published; --keep-going publishes the rest", "bad")
        return
    there = (
        f"{count_of(generated.files, 'file')} of {count_of(generated.releases, 'release')}, "
        f"{count_of(generated.projects, 'project')}"
    )
    if generated.written or generated.removed:
        done = f"{len(generated.written)} written"
        if generated.removed:
            done += f", {len(generated.removed)} removed"
    else:
        done = "nothing has changed"
    output.result(f"{target.name}/simple/: {there}; {done}", "good")
    if generated.left_out:
        output.result(f"left out: {', '.join(generated.left_out)}", "warning")
    if generated.unnamed:
        output.say(
            f"{count_of(generated.unnamed, 'file')} no page names any more; --prune removes what "
            "was so before the last change",
            "dim",
        )
