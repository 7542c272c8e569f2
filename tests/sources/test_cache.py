"""The store is sound whatever happens to it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from wheelfit.sources.cache import CacheEntry, Store, key_of

if TYPE_CHECKING:
    from pathlib import Path


def only_file(folder: Path) -> Path:
    """Return the only entry of a store."""
    (path,) = (each for each in folder.rglob("*") if each.is_file() and each.name != "CACHEDIR.TAG")
    return path


def test_round_trip(tmp_path: Path) -> None:
    """What was written is read, by kind and key."""
    store = Store(tmp_path / "cache")
    assert store.read("pages", "k") is None
    store.write("pages", "k", {"a": [1, None]}, b"body\0")
    found = store.read("pages", "k")
    digest = hashlib.sha256(b"body\0").hexdigest()
    assert found == CacheEntry({"a": [1, None], "key": "k"}, b"body\0", digest)
    assert store.read("pages", "K") is None
    assert store.read("other", "k") is None


def test_a_head_is_read_without_the_body(tmp_path: Path) -> None:
    """A long body stays on disk, and its digest is known; damage to the head shows."""
    store, body = Store(tmp_path), bytes(range(256)) * 1000
    store.write("pages", "long", {"a": 1}, body)
    digest = hashlib.sha256(body).hexdigest()
    assert store.read_head("pages", "long") == CacheEntry({"a": 1, "key": "long"}, b"", digest)
    assert store.read_part("pages", "long", 250, 10) == body[250:260]
    assert store.read_head("pages", "other") is None
    assert store.read_part("pages", "other", 0, 1) is None
    place = only_file(tmp_path / "pages-1")
    data = place.read_bytes()
    place.write_bytes(data[:-1] + b"x")
    assert store.read_head("pages", "long") is not None
    assert store.read("pages", "long") is None
    place.write_bytes(data.replace(b'"a":1', b'"a":2'))
    assert store.read_head("pages", "long") is None
    for length in range(0, 200, 7):
        place.write_bytes(data[:length])
        assert store.read_head("pages", "long") is None
        assert store.read("pages", "long") is None


def test_a_head_may_be_long(tmp_path: Path) -> None:
    """Longer than what is read first; and a short entry is read with its body."""
    store, head = Store(tmp_path), {"a": "x" * 200_000}
    store.write("pages", "k", head, b"y" * 100_000)
    found = store.read_head("pages", "k")
    assert found is not None
    assert found.head["a"] == head["a"]
    assert store.read_part("pages", "k", 99_999, 10) == b"y"
    store.write("pages", "k", {}, b"short")
    assert store.read_head("pages", "k") == store.read("pages", "k")


def test_nothing_is_kept_without_folder() -> None:
    """A store without folder is always empty, and says so."""
    store = Store(None)
    store.write("pages", "k", {}, b"")
    assert store.read("pages", "k") is None
    assert store.wheel("0" * 64) is None
    assert not store.is_enabled


@pytest.mark.parametrize("place", ["start", "middle", "end", "cut", "empty", "longer"])
def test_damage_reads_as_absent(tmp_path: Path, place: str) -> None:
    """A damaged entry is none, wherever the damage is."""
    store = Store(tmp_path)
    store.write("pages", "k", {"a": 1}, b"body" * 100)
    path = only_file(tmp_path)
    data = bytearray(path.read_bytes())
    if place in {"start", "middle", "end"}:
        data[{"start": 3, "middle": len(data) // 2, "end": -1}[place]] ^= 1
    shapes = {"cut": data[:-10], "empty": bytearray(), "longer": data + b"x"}
    path.write_bytes(shapes.get(place, data))
    assert store.read("pages", "k") is None
    store.write("pages", "k", {"a": 2}, b"new")
    assert store.read("pages", "k") is not None


def test_entries_belong_to_their_key(tmp_path: Path) -> None:
    """A file under another entry's name is not that entry."""
    store = Store(tmp_path)
    store.write("pages", "one", {}, b"1")
    source = only_file(tmp_path)
    store.write("pages", "two", {}, b"2")
    for path in tmp_path.rglob("*"):
        if path.is_file() and path not in {source, tmp_path / "CACHEDIR.TAG"}:
            path.write_bytes(source.read_bytes())
    assert store.read("pages", "two") is None


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_folder(tmp_path: Path) -> None:
    """A folder that cannot be written keeps nothing and breaks nothing."""
    tmp_path.chmod(0o500)
    store = Store(tmp_path / "cache")
    store.write("pages", "k", {}, b"")
    assert store.read("pages", "k") is None


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    """A cache folder that is a file keeps nothing and breaks nothing."""
    (tmp_path / "cache").write_text("")
    store = Store(tmp_path / "cache")
    store.write("pages", "k", {}, b"")
    assert store.read("pages", "k") is None
    with store.new_wheel() as temporary:
        assert temporary is None


def test_wheels(tmp_path: Path) -> None:
    """A wheel is there only after it was kept; an abandoned one leaves nothing."""
    store = Store(tmp_path)
    with store.new_wheel() as temporary:
        assert temporary is not None
        temporary[0].write(b"half")
    assert list(tmp_path.rglob("*.part")) == []
    with store.new_wheel() as temporary:
        assert temporary is not None
        file, path = temporary
        file.write(b"whole")
        file.close()
        kept = store.keep_wheel(path, "ab" * 32)
    assert kept is not None
    assert store.wheel("ab" * 32) == kept
    assert kept.read_bytes() == b"whole"
    store.forget_wheel("ab" * 32)
    assert store.wheel("ab" * 32) is None


@pytest.mark.parametrize("digest", ["", "../" + "0" * 61, "00"])
def test_digests_are_no_paths(tmp_path: Path, digest: str) -> None:
    """What is not a digest names no file."""
    assert Store(tmp_path).wheel(digest) is None


def test_cache_folder_is_marked(tmp_path: Path) -> None:
    """Backup programs can tell that the folder is a cache; others may not look into it."""
    Store(tmp_path / "cache").write("pages", "k", {}, b"")
    assert (tmp_path / "cache/CACHEDIR.TAG").read_text().startswith("Signature: 8a477f59")
    if os.name != "nt":
        assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def test_threads(tmp_path: Path) -> None:
    """Readers and writers of one key never see half of anything."""
    store = Store(tmp_path)
    bodies = [bytes([number]) * 50_000 for number in range(8)]

    def write_and_read(number: int) -> None:
        for _ in range(20):
            store.write("pages", "k", {}, bodies[number])
            found = store.read("pages", "k")
            assert found is not None
            assert found.body in bodies

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write_and_read, range(8)))
    assert list(tmp_path.rglob("*.part")) == []


def test_processes(tmp_path: Path) -> None:
    """So do processes, and one that is killed leaves a sound store."""
    script = (
        "import sys; from pathlib import Path; from wheelfit.sources.cache import Store\n"
        "store = Store(Path(sys.argv[1]))\n"
        "while True: store.write('pages', 'k', {}, sys.argv[2].encode() * 200_000)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), each]) for each in "abc"
    ]
    store = Store(tmp_path)
    try:
        seen = set()
        for _ in range(2000):
            found = store.read("pages", "k")
            if found is not None:
                assert found.body in (b"a" * 200_000, b"b" * 200_000, b"c" * 200_000)
                seen.add(found.body)
            if len(seen) == 3:
                break
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    found = store.read("pages", "k")
    assert found is None or len(found.body) == 200_000


def test_what_cannot_be_kept_is_said_once(tmp_path: Path) -> None:
    """A folder that cannot be used is named with the reason, once."""
    (tmp_path / "cache").write_text("")
    said: list[str] = []
    store = Store(tmp_path / "cache", note=said.append)
    for key in "ab":
        store.write("pages", key, {}, b"")
    with store.new_wheel() as temporary:
        assert temporary is None
    assert said == [
        f"the cache {tmp_path / 'cache'} cannot be written, so nothing is cached: Not a directory"
    ]


def test_keys() -> None:
    """Different parts give different keys, whatever is in them; so do kinds and versions."""
    keys = [
        key_of("a", 1, "b", "c"),
        key_of("a", 1, "b\nc"),
        key_of("a", 1, "bc"),
        key_of("a", 1, "b", None),
        key_of("a", 2, "b", "c"),
        key_of("ab", 1, "c"),
        key_of("a", 1, ["b", "c"]),
        key_of("a", 1, "\udcff"),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of("a", 1, {"x": 1, "y": 2}) == key_of("a", 1, {"y": 2, "x": 1})
