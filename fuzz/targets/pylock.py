"""Lock files: read within limits, written whole, and strict where it matters (F-115 to F-124)."""

from __future__ import annotations

import logging
import tomllib
from typing import Any

from msgspec.structs import replace
from packaging.pylock import Pylock, PylockValidationError
from packaging.version import Version

from wheelfit.core.strict_toml import TomlLimits
from wheelfit.locking.document import Lock, LockedPackage, read_lock, write_lock
from wheelfit_runtime.errors import Fault, InvalidLock

LONGEST = 4096
"""Bytes of an input."""

TIGHT = TomlLimits(size=400, depth=4, entries=12)
"""So small that short inputs reach them."""

MANY_WORDS = 3000
"""Characters, which few short sentences and a path in a document have."""

OURS = ("too many digits", "versions of the wheels differ")
"""What packaging leaves to those who use a lock."""


class Loud(logging.Handler):
    """Fail when a library would write to the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Fail."""
        raise AssertionError(record.getMessage())


def check(data: bytes) -> None:
    """Hold the reader and the writer of lock files to their rules for some bytes."""
    if not logging.root.handlers:
        logging.root.addHandler(Loud())
    lock = read(data)
    strict = read(data, strict=True)
    tight = read(data, limits=TIGHT)
    if isinstance(lock, Lock):
        check_whole(data, lock)
        check_packages(lock)
        for other in (strict, tight):
            assert not isinstance(other, Lock) or same(other, lock)
        check_tight(data, tight)
    else:
        assert not isinstance(strict, Lock)
        assert not isinstance(tight, Lock)
        check_refused(data, lock)


def read(data: bytes, **options: Any) -> Lock | tuple[Fault, ...]:
    """Read a lock, or return what is wrong with it."""
    try:
        return read_lock(data, where="x", **options)
    except InvalidLock as error:
        assert error.faults
        assert error.where == "x"
        for fault in error.faults:
            check_words(fault.path)
            check_words(fault.message)
        return error.faults


def same(one: Lock, other: Lock) -> bool:
    """Say whether two locks say the same; ``nan`` is equal to ``nan`` here."""
    return (
        written(one.to_mapping()) == written(other.to_mapping())
        and [parts(package) for package in one.packages]
        == [parts(package) for package in other.packages]
        and len(one.notes) == len(other.notes)
        and one.roots == other.roots
    )


def written(value: Any) -> str:
    """Write plain data with types and without the order of keys, which TOML does not keep."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {written(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return repr(value)


def parts(package: LockedPackage) -> tuple[object, ...]:
    """Return what is read of a package; notes name things in the order of the file."""
    document = package.document
    known = document and (document.priorities, document.providers, document.variants)
    return (
        replace(package, document=None, table=None, notes=()),
        known,
        len(package.notes),
        package.table is None,
    )


def check_words(words: str) -> None:
    """Check that what is said fits into a few lines and cannot steer a terminal (F-136)."""
    assert words.isprintable()
    assert len(words) < MANY_WORDS


def check_whole(data: bytes, lock: Lock) -> None:
    """Check that nothing is lost, whoever wrote it (F-115)."""
    assert repr(lock.to_mapping()) == repr(tomllib.loads(data.decode()))
    text = write_lock(lock)
    again = read(text)
    assert isinstance(again, Lock)
    assert same(again, lock)
    assert write_lock(again) == text


def check_packages(lock: Lock) -> None:
    """Check the parts of a lock against its plain data."""
    for words in lock.notes:
        check_words(words)
    for package, entry in zip(lock.packages, lock.entries, strict=True):
        assert package.name == entry["name"]
        if "version" in entry:  # builds of one release may share an entry
            version = Version(entry["version"])
            assert package.version in (version, Version(version.public))
        assert len(entry.get("wheels", ())) == len(package.wheels) or package.kind != "wheels"
        for wheel in package.wheels:
            assert wheel.hashes
            assert wheel.filename.name == package.name
            assert wheel.filename.version == package.version
        assert package.document is None or package.wheels


def check_tight(data: bytes, tight: Lock | tuple[Fault, ...]) -> None:
    """Check that only what is too large is refused for being so (F-30)."""
    if isinstance(tight, Lock):
        depth, entries = measured(tomllib.loads(data.decode()))
        assert len(data) <= TIGHT.size
        assert depth <= TIGHT.depth
        assert entries <= TIGHT.entries
    else:
        assert {fault.rule for fault in tight} == {"F-30"}


def measured(value: Any) -> tuple[int, int]:
    """Return depth and number of entries, the slow way."""
    if not isinstance(value, dict | list):
        return 0, 0
    inner = [measured(item) for item in (value if isinstance(value, list) else value.values())]
    return 1 + max((depth for depth, _ in inner), default=0), sum(count for _, count in inner)


def check_refused(data: bytes, faults: tuple[Fault, ...]) -> None:
    """Check that what packaging accepts is refused for a reason of ours only."""
    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return
    logging.disable()  # of newer versions of the format packaging complains
    try:
        Pylock.from_dict(table)
    except (PylockValidationError, ValueError):
        return
    finally:
        logging.disable(logging.NOTSET)
    for fault in faults:
        assert fault.rule or any(reason in fault.message for reason in OURS), fault
