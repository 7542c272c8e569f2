"""Locks: reading undoes writing, nothing is lost, pruning changes no choice, nothing crashes."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.pylock import PackageWheel, Pylock, PylockSelectError

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.labels import Label
from wheelfit.core.metadata import read_document, to_mapping
from wheelfit.core.property_support import support_for
from wheelfit.core.selection import select
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.locking.pruning import prune
from wheelfit.locking.repository import LockedRepository
from wheelfit.locking.selection import LockCandidates, applicable_packages
from wheelfit.resolution.candidates import Candidates
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import NVIDIA, linux_target
from wheelfit.testing.wheels import SCHEMA
from wheelfit_runtime.errors import InvalidLock, WheelfitError

TARGET = linux_target()
NAMES = ["a", "b-c", "d"]
LABELS = ["null", "v1", "cu12.6", "x.y_z", "00000000"]
TAGS = ["py3-none-any", "cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-win_amd64"]
MARKERS = [
    "sys_platform == 'linux'",
    "sys_platform == 'win32'",
    "'x' in extras",
    "'dev' in dependency_groups",
    "python_version >= '3.11' and ('dev' in dependency_groups or 'x' not in extras)",
]

SCALARS = st.one_of(
    st.text(max_size=8),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.datetimes(timezones=st.just(UTC), min_value=datetime(1000, 1, 1)),  # noqa: DTZ001
    st.dates(),
    st.times(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
UNKNOWN = st.dictionaries(st.text(max_size=6).map(lambda text: f"x-{text}"), VALUES, max_size=2)

STATIC = {"f0": ["a", "b", "c"], "f1": ["b", "a"]}
PROVIDERS = {
    "static": {"static-properties": STATIC, "feature-order": ["f1", "f0"]},
    "nvidia": NVIDIA,
    "x86_64": {"requires": ["x86-64-variant-provider<1"]},
}
PROPERTIES: st.SearchStrategy[dict[str, dict[str, list[str]]]] = st.fixed_dictionaries(
    {},
    optional={
        "static": st.fixed_dictionaries(
            {},
            optional={
                name: st.lists(st.sampled_from("abc"), min_size=1, unique=True).map(sorted)
                for name in STATIC
            },
        ).filter(bool),
        "nvidia": st.sampled_from(
            [{"cuda_version_lower_bound": ["12.6"]}, {"cuda_version_lower_bound": ["12.8"]}]
        ),
        "x86_64": st.sampled_from([{"level": ["v2"]}, {"level": ["v3"]}, {"level": ["v4"]}]),
    },
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the variant metadata of a release, as plain data."""
    names = draw(st.permutations(list(PROVIDERS)))
    variants = draw(
        st.dictionaries(
            st.sampled_from(LABELS[1:4]), PROPERTIES.filter(bool), min_size=1, max_size=3
        )
    )
    return {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": names},
        "providers": {name: PROVIDERS[name] for name in names},
        "variants": {"null": {}, **variants},
    }


@st.composite
def wheels(draw: st.DrawFn, name: str, version: str, labels: list[str | None]) -> dict[str, Any]:
    """Draw a listed wheel."""
    label, tags = draw(st.sampled_from(labels)), draw(st.sampled_from(TAGS))
    parts = [name.replace("-", "_"), version, tags, *([label] if label else [])]
    text = "-".join(parts) + ".whl"
    place = draw(st.sampled_from([{"url": f"https://x.invalid/{text}"}, {"path": f"w/{text}"}]))
    named = draw(st.sampled_from([{}, {"name": text}]))
    return {**named, **place, "hashes": {"sha256": "00"}, **draw(UNKNOWN)}


@st.composite
def packages(draw: st.DrawFn, *, variants: bool = True) -> dict[str, Any]:
    """Draw an entry of a lock."""
    name, version = draw(st.sampled_from(NAMES)), draw(st.sampled_from(["1", "2.0"]))
    document = draw(documents()) if variants else None
    labels: list[str | None] = [None, *(document["variants"] if document else ())]
    listed = draw(
        st.lists(
            wheels(name, version, labels),
            min_size=1,
            max_size=6,
            unique_by=lambda wheel: (wheel.get("url") or wheel["path"]).rpartition("/")[2],
        )
    )
    entry: dict[str, Any] = {"name": name, "version": version, **draw(UNKNOWN)}
    if draw(st.booleans()):
        entry["marker"] = draw(st.sampled_from(MARKERS))
    if draw(st.booleans()):
        sdist = f"{name.replace('-', '_')}-{version}.tar.gz"
        entry["sdist"] = {"url": f"https://x.invalid/{sdist}", "hashes": {"sha256": "00"}}
    entry["wheels"] = listed
    if document is not None:
        entry["variants-json"] = document
    if draw(st.booleans()):
        entry["tool"] = {"x": draw(VALUES)}
    return entry


@st.composite
def tables(draw: st.DrawFn, *, variants: bool = True) -> dict[str, Any]:
    """Draw a lock as plain data."""
    return {
        "lock-version": "1.0",
        "extras": ["x"],
        "dependency-groups": ["dev"],
        "default-groups": draw(st.sampled_from([[], ["dev"]])),
        "created-by": draw(st.text(max_size=5)),
        **draw(UNKNOWN),
        "packages": draw(st.lists(packages(variants=variants), max_size=3)),
        "tool": draw(UNKNOWN),
    }


@settings(max_examples=40)
@given(tables())
def test_reading_undoes_writing(table: dict[str, Any]) -> None:
    """F-115, F-117, F-119: whatever is in a lock is in it after a rewrite, unknown keys too."""
    lock = read_lock(tomli_w.dumps(table).encode(), where="pylock.toml")
    data = write_lock(lock)
    assert tomllib.loads(data.decode()) == table
    again = read_lock(data, where="pylock.toml")
    assert again == lock
    assert write_lock(again) == data
    assert [wheel.filename for package in again.packages for wheel in package.wheels] == [
        wheel.filename for package in lock.packages for wheel in package.wheels
    ]


MACHINES = st.builds(
    lambda cuda, level: FixedDetector(
        {
            "nvidia": {"cuda_version_lower_bound": cuda},
            "x86_64": {"level": level},
        }
    ),
    st.sampled_from([["12.8", "12.7", "12.6"], ["12.6"], []]),
    st.sampled_from([["v4", "v3", "v2"], ["v3", "v2"], ["v2"], []]),
)


@settings(max_examples=100)
@given(
    documents(), st.lists(st.sampled_from([None, *LABELS[:4]]), min_size=1, unique=True), MACHINES
)
def test_pruning_changes_no_choice(
    table: dict[str, Any], listed: list[str | None], machine: FixedDetector
) -> None:
    """F-116, F-120: verdicts on the listed wheels are the same before and after a lock."""
    document = read_document(table, where="test")
    texts = [f"a-1-py3-none-any{f'-{label}' if label else ''}.whl" for label in listed]
    labels = [Label(label) for label in listed if label]
    kept = read_document(to_mapping(prune(document, labels)), where="pruned")
    assert all(
        kept.properties(label) == document.properties(label)
        for label in labels
        if label in kept.variants
    )
    verdicts = [
        select(
            [parse_wheel_filename(text) for text in texts],
            document=one,
            support=support_for(one, machine, environment=TARGET.environment),
            tags=TARGET.tags,
        )
        for one in (document, kept)
    ]
    assert verdicts[0] == verdicts[1]


@settings(max_examples=30)
@given(tables(), MACHINES)
def test_choosing_is_the_same_after_a_rewrite(
    table: dict[str, Any], machine: FixedDetector
) -> None:
    """F-117, F-123: a lock read, written and read again gives every machine the same."""

    def chosen(lock: Lock) -> object:
        try:
            chooser = LockCandidates(lock, TARGET, machine, folder=Path("/locks"))
            resolution = chooser.select().resolution()
        except WheelfitError as error:
            return type(error), error.message, error.note
        return [(pin.name, pin.filename.text, pin.reason) for pin in resolution.pins]

    lock = Lock.of(table, where="pylock.toml")
    assert chosen(read_lock(write_lock(lock), where="pylock.toml")) == chosen(lock)


@settings(max_examples=50)
@given(
    tables(variants=False),
    st.sampled_from([(), ("x",)]),
    st.sampled_from([None, (), ("dev",)]),
)
def test_plain_locks_are_as_packaging_has_them(
    table: dict[str, Any], extras: tuple[str, ...], groups: tuple[str, ...] | None
) -> None:
    """Without variants the same entries count, with the same wheels, as in packaging."""
    lock = Lock.of(table)
    environment: Any = dict(TARGET.environment)
    try:
        expected = {
            package.name: found.filename if isinstance(found, PackageWheel) else None
            for package, found in Pylock.from_dict(table).select(
                environment=environment,
                tags=list(TARGET.tags),
                extras=extras,
                dependency_groups=groups,
            )
        }
    except PylockSelectError:
        expected = None
    try:
        entries = applicable_packages(lock, TARGET, extras=extras, groups=groups)
    except InvalidLock:  # two of one name
        assert expected is None
        return
    repository = LockedRepository(entries, name="", folder=Path("/locks"))
    candidates = Candidates(repository, TARGET, None)
    found = {}
    for package in entries:
        assert package.version is not None
        wheel = candidates.choice(package.name, package.version).chosen
        found[package.name] = wheel.filename.text if wheel else None
    if expected is None:  # packaging wants a wheel or a source distribution of each
        assert None in found.values()
    else:
        assert found == expected


@settings(max_examples=60)
@given(st.data())
def test_nothing_crashes(data: st.DataObject) -> None:
    """F-30, F-134: whatever bytes or values come, there is a lock or an error of ours."""
    if data.draw(st.booleans()):
        table = data.draw(tables())
        place: Any = table
        for _ in range(data.draw(st.integers(1, 6))):
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
                place[key] = data.draw(VALUES)
                break
            place = place[key]
        text = tomli_w.dumps(table).encode()
    else:
        text = write_lock(Lock.of(data.draw(tables())))
        start = data.draw(st.integers(0, len(text)))
        text = text[:start] + data.draw(st.binary(max_size=5)) + text[start + 3 :]
    with suppress(WheelfitError):
        lock = read_lock(text, where="pylock.toml")
        again = read_lock(write_lock(lock), where="pylock.toml")
        assert again.to_mapping().keys() == lock.to_mapping().keys()
        LockCandidates(lock, TARGET, FixedDetector(), folder=Path("/locks")).select()
