"""Make a folder from a lock that installs with no network.

It has exactly the wheels that the machines named with --for need, each once, with a lock, an index
and the host files. It is read back before it gets its name, so it is complete or not there at all.
`--verify DIR` checks one later: whether something is missing, changed or extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.cli.options.table.environment import BOUNDS, INTERPRETER
from wheelfit.cli.options.table.locking import BUNDLE
from wheelfit.cli.options.table.machine import MACHINES
from wheelfit.cli.options.table.requirements import LOCK_FILE
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wheelfit.cli.bundles import Everything, ForHosts
    from wheelfit.cli.output import Output
    from wheelfit.core.target import Target
    from wheelfit.lock.bundles.manifest import Manifest
    from wheelfit.operations.locks import OpenedLock
    from wheelfit.resolve.candidates import ChoicePolicy


OPTIONS = (LOCK_FILE, BUNDLE, INTERPRETER, SOURCES, MACHINES, BOUNDS, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Make a bundle, or check one."""
    from wheelfit.errors import UsageError

    if arguments.verify:
        if arguments.output or arguments.hosts or arguments.all or arguments.lock != "pylock.toml":
            raise UsageError(
                "--verify checks a bundle, and takes no lock and neither -o, --for nor --all"
            )
        return _verify(arguments, output, environ)
    if arguments.all and arguments.hosts:
        raise UsageError("--all takes the wheels for every machine, so --for says nothing")
    if not arguments.output:
        raise UsageError("nothing says where the bundle goes", hint="give -o DIR")
    return _make(arguments, output, environ)


def _make(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    from wheelfit.cli.bundle_folders import Place, make, sizes_of
    from wheelfit.cli.bundles import Everything, ForHosts, check_accelerators
    from wheelfit.cli.progress import Bars
    from wheelfit.operations.bounds import check_download
    from wheelfit.operations.locks import open_lock

    place = Place.of(arguments.output, update=arguments.update)
    opened = open_lock(arguments, environ, output)
    with opened.repository:
        plan: ForHosts | Everything = (
            Everything(opened) if arguments.all else ForHosts(opened, arguments.hosts or [None])
        )
        if arguments.require_accelerator:
            check_accelerators(plan)
        manifest, reused = None, 0
        sizes: dict[str, int | None] = {}
        with Bars(output, opened.repository.cut) as bars:
            if arguments.dry_run or arguments.max_download is not None:
                found = sizes_of(plan, place, bars)
                sizes = {name: size.file for name, size in found.items()}
                if arguments.max_download is not None:
                    check_download(
                        arguments.max_download,
                        found,
                        hint="allow more, or make it for fewer machines; --dry-run shows "
                        "every size",
                    )
            if not arguments.dry_run:
                contents = make(plan, opened, place, bars)
                manifest, reused = contents.manifest, len(contents.reused)
                sizes = {name: file.size for name, file in manifest.wheels.items()}
        _report(plan, opened, output, manifest, sizes, reused=reused)
    return 0


# --- making -------------------------------------------------------------------------------


def _report(
    plan: ForHosts | Everything,
    opened: OpenedLock,
    output: Output,
    manifest: Manifest | None,
    sizes: Mapping[str, int | None],
    *,
    reused: int,
) -> None:
    from wheelfit.wording import count_of

    hosts = [_host(host, sizes) for host in plan.hosts]
    total = _sum(sizes.values())
    separate = [host["size"] for host in hosts]
    shared = None if total is None else (_sum(separate) or 0) - total if hosts else 0
    folder, notes = opened.arguments.output, plan.notes
    output.result_json(
        {
            "version": 1,
            "dry_run": manifest is None,
            "folder": folder,
            "lock": str(opened.path),
            "hosts": hosts,
            "wheels": [
                {"filename": name, "size": sizes[name], "sha256": _digest(manifest, name)}
                for name in sorted(sizes)
            ],
            "size": total,
            "shared": shared,
            "reused": reused,
            "notes": list(notes),
        }
    )
    for note in notes:
        output.warn(note)
    for host in hosts:
        packages = host["packages"]
        output.result(
            f"{host['name']}: {count_of(len(packages), 'package')}, {_words(host['size'])}"
        )
        for package in packages:
            if package["label"] is not None or output.verbosity > 0:
                label = f" ({package['label']})" if package["label"] else ""
                output.result(f"  {package['name']} {package['version']}{label}")
    verb = "would write" if manifest is None else "wrote"
    line = f"{verb} {folder}: {count_of(len(sizes), 'wheel')}, {_words(total)}"
    if shared:
        line += f"; a folder for each would take {_words(shared)} more"
    if reused:
        line += f"; {reused} taken from the earlier bundle"
    output.result(line)


def _host(host: Any, sizes: Mapping[str, int | None]) -> dict[str, Any]:
    pins = host.selection.resolution().pins
    return {
        "name": host.name,
        "file": f"hosts/{host.name}.toml",
        **host.machine.to_mapping(),
        "packages": [
            {
                "name": pin.name,
                "version": str(pin.version),
                "label": pin.label,
                "filename": pin.filename.text,
                "size": sizes[pin.filename.text],
            }
            for pin in sorted(pins, key=lambda pin: pin.name)
        ],
        "size": _sum(sizes[pin.filename.text] for pin in pins),
    }


def _digest(manifest: Manifest | None, name: str) -> str | None:
    return None if manifest is None else manifest.wheels[name].sha256


def _sum(sizes: Any) -> int | None:
    """Add sizes up; None when one is not known."""
    known = list(sizes)
    return None if None in known else sum(known)


def _words(size: int | None) -> str:
    from wheelfit.core.sizes import size_in_words

    return "of unknown size" if size is None else size_in_words(size)


# --- checking -----------------------------------------------------------------------------


def _verify(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    from pathlib import Path

    from wheelfit.errors import FileProblem
    from wheelfit.lock.bundles.verification import load_manifest, verify
    from wheelfit.operations.environments import open_environment_of
    from wheelfit.wording import count_of

    folder = Path(arguments.verify)
    try:
        is_folder = folder.is_dir()
    except OSError as error:
        raise FileProblem(
            f"the folder cannot be read: {error.strerror}", where=arguments.verify
        ) from None
    if not is_folder:
        raise FileProblem("there is no such folder", where=arguments.verify)
    manifest = load_manifest(folder)
    target = open_environment_of(arguments, environ).target()
    chosen_by = _recorded(arguments, manifest.options, folder)
    verify(folder, manifest, target, _policy(chosen_by, target, environ, output))
    wheels = manifest.wheels
    size = sum(file.size for file in wheels.values())
    output.result_json(
        {
            "version": 1,
            "folder": arguments.verify,
            "hosts": [{"name": host.name, "file": host.file} for host in manifest.hosts],
            "wheels": [
                {"filename": name, "size": file.size, "sha256": file.sha256}
                for name, file in wheels.items()
            ],
            "size": size,
        }
    )
    for_whom = ", ".join(host.name for host in manifest.hosts) or "any machine"
    output.result(
        f"{arguments.verify} is in order: {count_of(len(wheels), 'wheel')}, {_words(size)}, "
        f"for {for_whom}"
    )
    return 0


def _policy(
    arguments: Namespace, target: Target, environ: Mapping[str, str], output: Output
) -> ChoicePolicy:
    """Return what the wheels of a bundle are chosen by, whichever machine is meant."""
    from wheelfit.operations.machine import choose_machine
    from wheelfit.operations.preferences import choice_policy

    return choice_policy(arguments, choose_machine(arguments, target, environ, output).policy)


def _recorded(arguments: Namespace, words: Sequence[str], folder: Path) -> Namespace:
    """Return the options that a bundle was made with, in place of those given now.

    :raises DamagedBundle: it names options that there are not.
    """
    from argparse import Namespace
    from typing import NoReturn

    from wheelfit.cli.options.arguments import OptionParser
    from wheelfit.errors import DamagedBundle
    from wheelfit.lock.bundles.manifest import MANIFEST

    class Parser(OptionParser):
        def error(self, message: str) -> NoReturn:
            raise DamagedBundle([(MANIFEST, "unreadable", message)], where=str(folder))

    recorded = Parser("bundle", (MACHINES, VARIANTS), add_help=False).parse_args(list(words))
    return Namespace(**{**vars(arguments), **vars(recorded)})
