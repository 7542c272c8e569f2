"""Export of an index from any store into a folder, and import into any other store.

The contents of files are in ``files``, as in the folder of a store, and everything else is in
``records.jsonl``, one database row a line. This file is written last: an interrupted export leaves
an earlier one unchanged, and the next export reuses the files.
"""

from __future__ import annotations

import base64
import json
import os
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from wheelfit.core.strict_json import shortened
from wheelfit.server.store.blobs import (
    FILE_MODE,
    Blobs,
    check_digest,
    make_folder,
    reporting_disk_errors,
)
from wheelfit.server.store.database import MIGRATIONS, Database, Execute, Row, Value, insert
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.wheels.atomic_write import new_file, write_all
from wheelfit_runtime.errors import FileProblem, IntegrityError, os_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from wheelfit.sources.progress import Progress

RECORDS = "records.jsonl"
FILES = "files"
_FORMAT = 1
_COUNTER_TABLE = "counter"
"""The table that has a row even in a new store."""
_AUDIT_TABLE = "audit"
"""The table whose rows are read in parts, because there may be a year of them."""
_ROWS_PER_QUERY = 10_000
_FILE_TABLE = "file"
"""The table whose rows are read by project, because each may have megabytes."""
_TIMEOUT = 86400.0
"""Seconds that a transaction may take here."""


class MovedIndex(NamedTuple):
    """The size of an index that was moved."""

    files: int
    """The number of distinct files by content."""
    copied: int
    """The number of files that were copied."""
    size: int
    """Bytes of all."""
    records: int
    """Rows of all tables."""


def export_index(database: Database, blobs: Blobs, folder: Path, progress: Progress) -> MovedIndex:
    """Write a snapshot of an index to a folder; present files stay.

    :raises IntegrityError: a file does not match its hash.
    :raises StorageUnavailable: the store does not answer, or has lost a file.
    """
    database.deadlines = (_TIMEOUT, _TIMEOUT)
    rows = 0
    with reporting_disk_errors(folder):
        make_folder(folder)
        with new_file(folder / RECORDS, overwrite=True) as lines:
            os.chmod(lines.fileno(), FILE_MODE)  # noqa: PTH101 - it has no name yet
            write_all(lines, _line({"format": _FORMAT, "schema": len(MIGRATIONS)}))
            with database.reading() as execute:
                for table, row in _rows(execute):
                    write_all(lines, _line({"table": table, "row": row}))
                    rows += 1
                sizes = _sizes_of_files(execute)
            copied = _copy(sizes, blobs, FolderBlobs(folder / FILES), progress)
    return MovedIndex(len(sizes), copied, sum(sizes.values()), rows)


def check_export(folder: Path) -> dict[str, int]:
    """Read all records of an exported index; return the sizes of its files by digest.

    :raises FileProblem: there is no export, or one of a newer wheelfit.
    """
    return {
        str(row["sha256"]): int(row.get("size") or 0)
        for table, row in _read(folder / RECORDS)
        if table == _FILE_TABLE
    }


def import_index(
    folder: Path,
    sizes: Mapping[str, int],
    database: Database,
    blobs: Blobs,
    progress: Progress,
) -> MovedIndex:
    """Import an exported index into an empty store: bytes first, then all records or none.

    :param sizes: the sizes of files by digest, as `check_export` returns them.
    :raises FileProblem: the store has an index already, or the records contradict each other.
    :raises IntegrityError: a file does not match its hash.
    :raises StorageUnavailable: the store does not answer.
    """
    database.deadlines = (_TIMEOUT, _TIMEOUT)
    with database.reading() as execute:
        _check_empty(execute)
    copied = _copy(sizes, FolderBlobs(folder / FILES), blobs, progress)
    rows = 0
    with database.writing() as execute:
        _check_empty(execute)
        execute(f"DELETE FROM {_COUNTER_TABLE}")  # noqa: S608 - ours
        for table, row in _read(folder / RECORDS):
            try:
                insert(execute, table, **row)
            except database.constraint_error as error:
                raise FileProblem(
                    f"the file is not an export: {error}", where=str(folder / RECORDS)
                ) from None
            rows += 1
    return MovedIndex(len(sizes), copied, sum(sizes.values()), rows)


def _copy(sizes: Mapping[str, int], source: Blobs, target: Blobs, progress: Progress) -> int:
    """Copy the contents that the target lacks, and return how many."""
    progress.start(sum(sizes.values()))
    copied = 0
    for sha256, size in sizes.items():
        if target.size(sha256) != size:
            stored_size = source.size(sha256)
            if stored_size is None:
                raise IntegrityError(
                    "a file of the index is missing", where=sha256,
                    hint="the file is lost: upload it again, or delete it",
                )  # fmt: skip
            with target.draft() as draft:
                for piece in source.parts(sha256, 0, stored_size):
                    draft.write(piece)
                if draft.sha256 != sha256:
                    raise IntegrityError("a file of the index is damaged", where=sha256)
                target.save(draft)
            copied += 1
        progress.advance(size)
    progress.done()
    return copied


def _sizes_of_files(execute: Execute) -> dict[str, int]:
    return dict(execute("SELECT DISTINCT sha256, size FROM file ORDER BY sha256"))


def _check_empty(execute: Execute) -> None:
    for table in _tables():
        if table != _COUNTER_TABLE and execute(f"SELECT 1 FROM {table} LIMIT 1"):  # noqa: S608 - ours
            raise FileProblem(
                "the store has an index already",
                where=table,
                hint="import into a new folder, database and storage",
            )


# --- records --------------------------------------------------------------------------------


def _tables() -> dict[str, dict[str, str]]:
    """Return the columns of each table, with their types, as the migrations make them."""
    tables: dict[str, dict[str, str]] = {}
    for statement in chain.from_iterable(MIGRATIONS):
        match = re.fullmatch(r"CREATE TABLE (\w+) \((.*)\)", statement)
        if match is not None:
            columns = re.findall(r"(?:^|, )(\w+) (TEXT|\{number\}|\{bytes\})", match[2])
            tables[match[1]] = dict(columns)
    return tables


def _rows(execute: Execute) -> Iterator[tuple[str, dict[str, object]]]:
    for table, columns in _tables().items():
        names = ", ".join(columns)
        sql = f"SELECT {names} FROM {table}"  # noqa: S608 - ours
        if table == _FILE_TABLE:
            rows: Iterable[Row] = _by_project(execute, sql)
        elif table == _AUDIT_TABLE:
            rows = _by_serial(execute, sql)
        else:
            rows = sorted(execute(sql), key=repr)
        for row in rows:
            yield (
                table,
                {
                    name: _text(value) if kind == "{bytes}" else value
                    for (name, kind), value in zip(columns.items(), row, strict=True)
                },
            )


def _by_project(execute: Execute, sql: str) -> Iterator[Row]:
    for (project,) in execute(f"SELECT DISTINCT project FROM {_FILE_TABLE} ORDER BY project"):  # noqa: S608
        yield from execute(f"{sql} WHERE project = ? ORDER BY filename", (project,))


def _by_serial(execute: Execute, sql: str) -> Iterator[Row]:
    """Yield the rows of a log that may be long, a part of it at a time."""
    serial = 0
    while rows := execute(
        f"{sql} WHERE serial > ? ORDER BY serial LIMIT ?", (serial, _ROWS_PER_QUERY)
    ):
        yield from rows
        serial = rows[-1][0]


def _read(path: Path) -> Iterator[tuple[str, dict[str, Value]]]:
    """Yield the rows of an export after checking tables and columns."""
    tables = _tables()
    try:
        with path.open("rb") as lines:
            head = json.loads(next(lines, b"null"))
            if head["format"] != _FORMAT or head["schema"] > len(MIGRATIONS):
                raise FileProblem(
                    "the export was written by a newer wheelfit",
                    where=str(path),
                    hint="import it with that version",
                )
            for line in lines:
                entry = json.loads(line)
                kinds = tables[entry["table"]]
                values = {name: _value(value, kinds[name]) for name, value in entry["row"].items()}
                if entry["table"] == _FILE_TABLE:
                    check_digest(entry["row"]["sha256"])
                yield entry["table"], values
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileProblem(
            "the folder has no finished export", where=str(path),
            hint="`wheelfit index export` writes this file last; run it again",
        ) from error  # fmt: skip
    except OSError as error:
        raise FileProblem(
            f"the file cannot be read: {os_reason(error)}", where=str(path)
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FileProblem(f"the file is not an export: {error}", where=str(path)) from None


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _text(value: Any) -> str | None:
    return None if value is None else base64.b64encode(bytes(value)).decode()


def _value(value: object, kind: str) -> Value:
    if value is None:
        return None
    if kind == "{number}" and isinstance(value, int) and value.bit_length() < 64:
        return value
    if kind == "{number}" or not isinstance(value, str):
        raise TypeError(f"{shortened(repr(value), 40)} does not have the type of its column")
    return base64.b64decode(value, validate=True) if kind == "{bytes}" else value
