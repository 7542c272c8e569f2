"""Carry out ``python -m wheelfit_runtime store``."""

from __future__ import annotations

import argparse
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit_runtime.errors import StoreUnavailable, UserError, WheelfitError
from wheelfit_runtime.libraries import settings
from wheelfit_runtime.libraries.folders import remove_broken, toolkit_folder
from wheelfit_runtime.libraries.selections import chosen_hashes, selection_files
from wheelfit_runtime.libraries.store import Store
from wheelfit_runtime.libraries.store_changes import remove, sweep, unwritable
from wheelfit_runtime.libraries.toolkits import names
from wheelfit_runtime.libraries.verifying import damage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    from wheelfit_runtime.libraries.store import StoredWheel
    from wheelfit_runtime.loader.driver import Driver

_DAMAGED = 4
_INTERRUPTED = 130
_YOUNG = 3600.0
"""Seconds in which a wheel may still be waiting to be chosen by who fetched it."""
_DAY = 24 * 3600.0
_MEGA = 1_000_000


def run(arguments: list[str], environ: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Carry out a command and return the exit status."""
    parser = _parser()
    try:
        asked = parser.parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    folder = asked.store or settings.store_folder(environ)
    store = Store(os.path.abspath(folder), settings.site_stores(environ))  # noqa: PTH100
    command: Callable[[argparse.Namespace, Store], tuple[dict[str, Any], list[str], int]]
    command = asked.command
    try:
        report, lines, status = command(asked, store)
    except KeyboardInterrupt:
        err.write("error: interrupted from the keyboard [interrupted]\n")
        return _INTERRUPTED
    except WheelfitError as error:
        if asked.json:
            out.write(json.dumps({"error": error.parts()}, indent=2) + "\n")
        else:
            parts = (error.note, f"hint: {error.hint}" if error.hint else None)
            rest = "".join(f"\n  {part}" for part in parts if part)
            err.write(f"error: {error} [{error.reference}]{rest}\n")
        return error.exit_code
    text = json.dumps(report, indent=2) if asked.json else "\n".join(lines)
    # A folder may have a name that is not text.
    out.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m wheelfit_runtime store", description="care for the library store"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, words: str, command: object) -> argparse.ArgumentParser:
        command_parser = commands.add_parser(name, help=words, description=words)
        command_parser.set_defaults(command=command)
        command_parser.add_argument(
            "--store", metavar="FOLDER", help="another store than the user's own"
        )
        command_parser.add_argument("--json", action="store_true", help="write JSON")
        return command_parser

    add("list", "list the wheels that are there", _list)
    prefetch = add("prefetch", "bring libraries into the store", _prefetch)
    prefetch.add_argument("family", choices=names())
    prefetch.add_argument("version", help="as 12, 12.8 or 12.8.1")
    prefetch.add_argument(
        "components", nargs="*", metavar="COMPONENT", help="as nvrtc; default: the usual ones"
    )
    prefetch.add_argument(
        "--driver", metavar="X.Y", help="CUDA version of the driver they are for; default: this one"
    )
    prefetch.add_argument("--lock", metavar="FILE", help="a pylock.toml to take the wheels from")
    prefetch.add_argument("--index-url", metavar="URL")
    prefetch.add_argument("--transport", choices=settings.TRANSPORTS)
    prefetch.add_argument("--upgrade", action="store_true", help="look for newer ones")
    verify = add("verify", "hash every file again", _verify)
    verify.add_argument("--remove", action="store_true", help="remove wheels that are damaged")
    gc = add("gc", "remove what nothing uses", _gc)
    gc.add_argument("--days", type=float, metavar="N", help="also what nobody chose for N days")
    gc.add_argument("--dry-run", action="store_true", help="only say what would go")
    add("path", "say where the store is", _path)
    return parser


def _size(entry: StoredWheel) -> int:
    # A library of several names is there once.
    return sum({digest: size for _, size, digest in entry.files()}.values())


def _described(entry: StoredWheel) -> dict[str, Any]:
    return {
        "sha256": entry.sha256,
        "project": entry.field("project"),
        "version": entry.field("version"),
        "bytes": _size(entry),
        "own": entry.is_own,
        "path": entry.tree,
    }


def _line(entry: StoredWheel) -> str:
    place = "" if entry.is_own else "  (site)"
    what = f"{entry.field('project') or '?'} {entry.field('version')}"
    return f"{what:44} {_size(entry) / _MEGA:8.1f} MB  {entry.sha256[:12]}{place}"


def _count(entries: Sequence[StoredWheel]) -> str:
    return "1 wheel" if len(entries) == 1 else f"{len(entries)} wheels"


def _list(asked: argparse.Namespace, store: Store) -> tuple[dict[str, Any], list[str], int]:
    del asked
    entries = store.entries()
    total = sum(map(_size, entries))
    places = " and ".join({str(Path(entry.folder).parent.parent): None for entry in entries})
    where = places or store.root
    lines = [*map(_line, entries), f"{_count(entries)}, {total / _MEGA:.1f} MB in {where}"]
    return {"wheels": [_described(entry) for entry in entries], "bytes": total}, lines, 0


def _prefetch(asked: argparse.Namespace, store: Store) -> tuple[dict[str, Any], list[str], int]:
    from wheelfit_runtime.libraries.initializing import prepare

    selection = prepare(
        asked.family,
        asked.version,
        asked.components or None,
        lock=asked.lock,
        store=store.root,
        index_url=asked.index_url,
        transport=asked.transport,
        driver=_driver(asked.driver),
        upgrade=asked.upgrade,
    )
    # Those who may only read this store later find it made.
    root = None
    with suppress(StoreUnavailable):  # all of it was there, in a store of the site
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
    lines += [f"  joined in {root}"] if root else []
    return report, lines, 0


def _driver(text: str | None) -> Driver | None:
    from wheelfit_runtime.loader.driver import Driver

    if text is None:
        return None
    major, dot, minor = text.partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise UserError(f"{text!r} is not a CUDA version of a driver", hint="give it as 12.6")
    return Driver((int(major), int(minor)))


def _verify(asked: argparse.Namespace, store: Store) -> tuple[dict[str, Any], list[str], int]:
    lines, damaged = [], []
    if asked.remove:
        store.check_safe()
    entries = store.entries()
    for entry in entries:
        problems = damage_of(entry)
        if problems:
            removed = asked.remove and entry.is_own
            # Nothing can be read of it once it is gone.
            damaged.append({**_described(entry), "problems": problems, "removed": removed})
            lines.append(f"{_line(entry)}{'  removed' if removed else ''}")
            lines += [f"  {problem}" for problem in problems]
            if removed:
                _remove(entry, store)
    lines.append(f"{_count(entries)} looked at, {len(damaged)} damaged")
    if any(damage["own"] and not damage["removed"] for damage in damaged):
        lines.append("hint: verify --remove removes them, and they are fetched again when needed")
    return {"looked_at": len(entries), "damaged": damaged}, lines, _DAMAGED if damaged else 0


def _gc(asked: argparse.Namespace, store: Store) -> tuple[dict[str, Any], list[str], int]:
    if asked.days is not None and not asked.days >= 0:
        raise UserError(f"{asked.days:g} is not a number of days", hint="--days 0 is everything")
    if not asked.dry_run:
        store.check_safe()  # others could exchange folders while some are removed
    used: set[str] = set()
    unwanted: set[str] = set()
    forgotten = []
    own = f"{store.root}{os.sep}"
    for path in selection_files(store):
        if path.startswith(own) and asked.days is not None and _age(path) > asked.days * _DAY:
            forgotten.append(path)
            unwanted |= chosen_hashes(path)
        else:
            used |= chosen_hashes(path)
    leaving = [
        entry
        for entry in store.entries()
        if entry.is_own
        and entry.sha256 not in used
        and (entry.sha256 in unwanted or _age(entry.folder) > _YOUNG)
    ]
    removed = [_described(entry) for entry in leaving]
    lines = [_line(entry) for entry in leaving]
    total = sum(map(_size, leaving))
    if not asked.dry_run:
        for path in forgotten:
            with suppress(OSError):
                Path(path).unlink()
        for entry in leaving:
            _remove(entry, store)
        remove_broken(store)
        sweep(store)
    verb = "would be removed" if asked.dry_run else "removed"
    lines.append(f"{_count(leaving)} {verb}, {total / _MEGA:.1f} MB")
    return {"removed": removed, "bytes": total, "dry_run": asked.dry_run}, lines, 0


def _age(path: str) -> float:
    try:
        return time.time() - Path(path).stat().st_mtime
    except OSError:
        return 0.0  # gone meanwhile


def _remove(entry: StoredWheel, store: Store) -> None:
    try:
        remove(store, entry)
    except FileNotFoundError:
        return  # another process was faster
    except OSError as error:
        raise unwritable(store.root, error) from None


def _path(asked: argparse.Namespace, store: Store) -> tuple[dict[str, Any], list[str], int]:
    del asked
    return {"store": store.root, "sites": list(store.sites)}, [*store.roots], 0
