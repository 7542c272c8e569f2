"""The differences between two locks."""

from __future__ import annotations

from locking.entries import lock_table, wheel_name

from wheelfit.locking.difference import changes
from wheelfit.locking.document import Lock


def lock(*filenames: str) -> Lock:
    """Return a lock of one release with some wheels."""
    wheels = [
        {"url": f"https://fake.invalid/{name}", "hashes": {"sha256": "00"}} for name in filenames
    ]
    return Lock.of(lock_table({"name": "fast", "version": "1", "wheels": wheels}))


def test_wheels_of_labels() -> None:
    """A label counts as new only if no wheel had it; else the number of wheels is reported."""
    linux, windows = (
        wheel_name("fast", "1", "cu12", f"py3-none-{platform}")
        for platform in ("manylinux_2_28_x86_64", "win_amd64")
    )
    newer = wheel_name("fast", "1", "cu13", "py3-none-win_amd64")
    for old, new, details in (
        (lock(linux), lock(linux, windows), "2 wheels instead of 1"),
        (lock(linux), lock(windows), "wheels with other names"),
        (lock(linux), lock(linux, newer), "with cu13"),
        (lock(linux, newer), lock(linux), "without cu13"),
        (lock(linux), lock(linux), None),
    ):
        assert [change.details for change in changes(old, new)] == ([details] if details else [])


def test_source_distribution() -> None:
    """Another source distribution of the same version is a change of the package."""

    def lock_of(digest: str) -> Lock:
        sdist = {"url": "https://fake.invalid/fast-1.tar.gz", "hashes": {"sha256": digest}}
        return Lock.of(lock_table({"name": "fast", "version": "1", "sdist": sdist}))

    details = [change.details for change in changes(lock_of("00"), lock_of("11"))]
    assert details == ["the locations or hashes of files differ"]
    assert changes(lock_of("00"), lock_of("00")) == ()
