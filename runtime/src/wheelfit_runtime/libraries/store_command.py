"""The command ``python -m wheelfit_runtime store``."""

from __future__ import annotations

import argparse
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wheelfit_runtime.errors import NetworkError, StoreUnavailable, UserError, WheelfitError
from wheelfit_runtime.libraries import settings
from wheelfit_runtime.libraries.folders import remove_broken, toolkit_folder
from wheelfit_runtime.libraries.selections import chosen_hashes, selection_files
from wheelfit_runtime.libraries.store import Store, StoredWheel
from wheelfit_runtime.libraries.store_changes import (
    remove_leftovers,
    remove_wheel,
    unwritable_store_error,
)
from wheelfit_runtime.libraries.toolkits import FAMILY_NAMES
from wheelfit_runtime.libraries.verifying import damage_of
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TextIO

    from wheelfit_runtime.loader.driver import Driver

_EXIT_DAMAGED = 4
_INTERRUPTED = 130
_GRACE = 3600.0
"""Seconds in which the process that fetched a wheel may still write its selection."""
_DAY = 24 * 3600.0
_MEGA = 1_000_000
_VARIABLES = """\
variables:
  WHEELFIT_LIBRARY_STORE      the folder of the store
  WHEELFIT_LIBRARY_SITES      additional read-only stores, as a search path
  WHEELFIT_LIBRARY_INDEX      the index
  WHEELFIT_LIBRARY_TRANSPORT  pip, uv or http
  WHEELFIT_OFFLINE            1: fetch nothing, except by prefetch
"""


class _Result(NamedTuple):
    """The result of a subcommand."""

    report: dict[str, Any]
    """The object of ``--json``."""
    lines: list[str]
    """The output without ``--json``."""
    status: int = 0
    """The exit status."""


def run(arguments: list[str], environ: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Run a subcommand and return the exit status."""
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    store = Store(settings.store_folder(environ), settings.site_stores(environ))
    command: Callable[[argparse.Namespace, Store], _Result] = options.command
    try:
        result = command(options, store)
    except KeyboardInterrupt:
        err.write("error: interrupted from the keyboard [interrupted]\n")
        return _INTERRUPTED
    except WheelfitError as error:
        if options.json:
            out.write(json.dumps({"error": error.parts()}, indent=2) + "\n")
        else:
            parts = (error.note, f"hint: {error.hint}" if error.hint else None)
            details = "".join(f"\n  {part}" for part in parts if part)
            err.write(f"error: {error} [{error.reference}]{details}\n")
        return error.exit_code
    text = json.dumps(result.report, indent=2) if options.json else "\n".join(result.lines)
    # The name of a folder need not be UTF-8.
    out.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    return result.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m wheelfit_runtime store",
        description="manage the library store",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_VARIABLES,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, help_text: str, command: object) -> argparse.ArgumentParser:
        command_parser = commands.add_parser(name, help=help_text, description=help_text)
        command_parser.set_defaults(command=command)
        command_parser.add_argument("--json", action="store_true", help="write JSON")
        return command_parser

    add("list", "list the stored wheels", _list)
    prefetch = add("prefetch", "fetch libraries into the store", _prefetch)
    prefetch.add_argument("family", choices=FAMILY_NAMES)
    prefetch.add_argument("version", help="as 12, 12.8 or 12.8.1")
    prefetch.add_argument(
        "components", nargs="*", metavar="COMPONENT", help="as nvrtc; default: those of the family"
    )
    prefetch.add_argument(
        "--driver",
        metavar="X.Y",
        help="CUDA version of the driver that they are for; default: the driver of this machine",
    )
    prefetch.add_argument("--lock", metavar="FILE", help="a pylock.toml to take the wheels from")
    prefetch.add_argument("--upgrade", action="store_true", help="look for newer versions")
    verify = add("verify", "verify the hash of every file", _verify)
    verify.add_argument("--remove", action="store_true", help="remove damaged wheels")
    gc = add("gc", "remove unused wheels", _gc)
    gc.add_argument(
        "--days", type=float, metavar="N", help="also wheels chosen more than N days ago"
    )
    gc.add_argument("--dry-run", action="store_true", help="show what would be removed")
    add("path", "print the path of the store", _path)
    return parser


def _size(entry: StoredWheel) -> int:
    # A file with several names is stored once.
    return sum({digest: size for _, size, digest in entry.files()}.values())


def _entry_data(entry: StoredWheel) -> dict[str, Any]:
    return {
        "sha256": entry.sha256,
        "project": entry.field("project"),
        "version": entry.field("version"),
        "bytes": _size(entry),
        "own": entry.is_own,
        "path": entry.tree,
    }


def _line(entry: StoredWheel) -> str:
    suffix = "" if entry.is_own else "  (site)"
    release = f"{entry.field('project') or '?'} {entry.field('version')}"
    return f"{release:44} {_size(entry) / _MEGA:8.1f} MB  {entry.sha256[:12]}{suffix}"


def _list(options: argparse.Namespace, store: Store) -> _Result:
    del options
    entries = store.entries()
    total = sum(map(_size, entries))
    roots = " and ".join({str(Path(entry.folder).parent.parent): None for entry in entries})
    folders = roots or store.root
    lines = [
        *map(_line, entries),
        f"{count_of(len(entries), 'wheel')}, {total / _MEGA:.1f} MB in {folders}",
    ]
    return _Result({"wheels": [_entry_data(entry) for entry in entries], "bytes": total}, lines)


def _prefetch(options: argparse.Namespace, store: Store) -> _Result:
    from wheelfit_runtime.libraries.initializing import prepare

    try:
        selection = prepare(
            options.family,
            options.version,
            options.components or None,
            lock=options.lock,
            store=store.root,
            driver=_driver(options.driver),
            upgrade=options.upgrade,
        )
    except NetworkError as error:
        if error.hint and error.hint.endswith("store prefetch"):  # which has just failed
            error.hint = "check the network, or set WHEELFIT_LIBRARY_INDEX to another index"
        raise
    # The toolkit folder is made now, for users who can only read this store.
    root = None
    with suppress(StoreUnavailable):  # all wheels are in a store of the site
        root = toolkit_folder(store, [sha256 for sha256, _, _ in selection.wheels])
    report = {
        "family": selection.family,
        "version": selection.version,
        "wheels": [
            {"sha256": sha256, "project": project, "version": version}
            for sha256, project, version in selection.wheels
        ],
        "libraries": [library.path for library in selection.libraries],
        "root": root,
    }
    entries = [store.find(sha256) for sha256, _, _ in selection.wheels]
    roots = {str(Path(entry.folder).parent.parent): None for entry in entries if entry is not None}
    lines = [f"{selection.family} {selection.version} is in {' and '.join(roots)}:"]
    lines += [f"  {project} {version}" for _, project, version in selection.wheels]
    lines += [f"  toolkit folder: {root}"] if root else []
    return _Result(report, lines)


def _driver(text: str | None) -> Driver | None:
    from wheelfit_runtime.loader.driver import Driver

    if text is None:
        return None
    major, dot, minor = text.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        raise UserError(f"{text!r} is not a CUDA version of a driver", hint="give it as 12.6")
    return Driver((int(major), int(minor)))


def _verify(options: argparse.Namespace, store: Store) -> _Result:
    lines, damaged = [], []
    if options.remove:
        store.check_safe()
    entries = store.entries()
    for entry in entries:
        problems = damage_of(entry)
        if problems:
            removed = options.remove and entry.is_own
            damaged.append({**_entry_data(entry), "problems": problems, "removed": removed})
            lines.append(f"{_line(entry)}{'  removed' if removed else ''}")
            lines += [f"  {problem}" for problem in problems]
            if removed:
                _remove(entry, store)
    lines.append(f"{count_of(len(entries), 'wheel')} checked, {len(damaged)} damaged")
    if any(damage["own"] and not damage["removed"] for damage in damaged):
        lines.append("hint: verify --remove removes them, and they are fetched again when needed")
    report = {"checked": len(entries), "damaged": damaged}
    return _Result(report, lines, _EXIT_DAMAGED if damaged else 0)


def _gc(options: argparse.Namespace, store: Store) -> _Result:
    if options.days is not None and not options.days >= 0:
        raise UserError(f"{options.days:g} is not a number of days", hint="--days 0 is everything")
    if not options.dry_run:
        store.check_safe()  # other users could replace folders while some are removed
    used: set[str] = set()
    released: set[str] = set()
    old_selections = []
    own_prefix = f"{store.root}{os.sep}"
    for path in selection_files(store):
        if (
            path.startswith(own_prefix)
            and options.days is not None
            and _age(path) > options.days * _DAY
        ):
            old_selections.append(path)
            released |= chosen_hashes(path)
        else:
            used |= chosen_hashes(path)
    unused = [
        entry
        for entry in store.entries()
        if entry.is_own
        and entry.sha256 not in used
        and (entry.sha256 in released or _age(entry.folder) > _GRACE)
    ]
    removed = [_entry_data(entry) for entry in unused]
    lines = [_line(entry) for entry in unused]
    total = sum(map(_size, unused))
    if not options.dry_run:
        for path in old_selections:
            with suppress(OSError):
                Path(path).unlink()
        for entry in unused:
            _remove(entry, store)
        remove_broken(store)
        remove_leftovers(store)
    verb = "would be removed" if options.dry_run else "removed"
    lines.append(f"{count_of(len(unused), 'wheel')} {verb}, {total / _MEGA:.1f} MB")
    return _Result({"removed": removed, "bytes": total, "dry_run": options.dry_run}, lines)


def _age(path: str) -> float:
    try:
        return time.time() - Path(path).stat().st_mtime
    except OSError:
        return 0.0  # removed meanwhile


def _remove(entry: StoredWheel, store: Store) -> None:
    try:
        remove_wheel(store, entry)
    except FileNotFoundError:
        return  # another process removed it
    except OSError as error:
        raise unwritable_store_error(store.root, error) from None


def _path(options: argparse.Namespace, store: Store) -> _Result:
    del options
    return _Result({"store": store.root, "sites": list(store.sites)}, [*store.roots])
