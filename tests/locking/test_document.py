"""Lock files are read and written whole, and everything wrong with them is said at once."""

from __future__ import annotations

import copy
import tomllib
from datetime import UTC, date, datetime, time
from typing import Any

import pytest
import tomli_w
from locking.entries import DOCUMENT, lock_table, lock_world, plain_entry, wheel_name
from packaging.pylock import Pylock, PylockValidationError

from wheelfit.core.metadata import read_document
from wheelfit.core.properties import EMPTY
from wheelfit.core.strict_toml import TomlLimits
from wheelfit.locking.document import Lock, is_lock_name, lock_name, read_lock, write_lock
from wheelfit_runtime.errors import InvalidLock, UserError

# The example of the format rules, with hashes.
EXAMPLE = """\
lock-version = "1.0"
created-by = "somebody"

[[packages]]
name = "fastfft"
version = "2.1"
wheels = [
  {name = "fastfft-2.1-cp313-cp313-manylinux_2_28_x86_64-cu12.8.whl", \
url = "https://index.example/a.whl", hashes = {sha256 = "0A"}},
  {name = "fastfft-2.1-cp313-cp313-manylinux_2_28_x86_64-null.whl", \
url = "https://index.example/b.whl", hashes = {sha256 = "0b"}},
]
[packages.variants-json]
"$schema" = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
default-priorities = {namespace = ["nvidia"]}
[packages.variants-json.providers.nvidia]
requires = ["nvidia-variant-provider>=0.0.1,<1"]
plugin-api = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
[packages.variants-json.variants]
"cu12.8" = {nvidia = {cuda_version_lower_bound = ["12.8"], sm_arch = ["80_real", "90_real"]}}
"""


def variant_entry(*labels: str | None, **more: Any) -> dict[str, Any]:
    """Return an entry with one wheel for each label, and the document of `entries`."""
    wheels = [
        {"url": f"https://x.invalid/{wheel_name('fastfft', '2.1', label)}", "hashes": {"md5": "0"}}
        for label in labels
    ]
    entry = {"name": "fastfft", "version": "2.1", "wheels": wheels}
    return {**entry, "variants-json": copy.deepcopy(DOCUMENT), **more}


def faults_of(table: dict[str, Any], **options: Any) -> dict[str, str]:
    """Return what is wrong with a lock, path to message."""
    with pytest.raises(InvalidLock) as excinfo:
        Lock.of(table, where="pylock.toml", **options)
    assert excinfo.value.where == "pylock.toml"
    return {fault.path: f"{fault.message} {fault.rule}".strip() for fault in excinfo.value.faults}


class TestVariants:
    """Variant wheels and the table that describes them (F-115, F-119, F-26)."""

    def test_the_example(self) -> None:
        """The table is the document that a ``-variants.json`` would be (F-115)."""
        (package,) = read_lock(EXAMPLE.encode(), where="pylock.toml").packages
        assert [wheel.filename.label for wheel in package.wheels] == ["cu12.8", "null"]
        assert package.wheels[0].hashes == {"sha256": "0a"}
        table = tomllib.loads(EXAMPLE)["packages"][0]["variants-json"]
        assert package.document == read_document(table, where="packages[0].variants-json")
        assert package.document.schema.endswith("/peps/850/v0.2.0.json")

    def test_the_null_variant_needs_no_entry(self) -> None:
        """A listed ``null`` wheel is usable although the table does not name it (F-26)."""
        (package,) = read_lock(EXAMPLE.encode(), where="pylock.toml").packages
        assert package.document is not None
        assert package.document.properties("null") == EMPTY

    def test_labels_are_quoted(self) -> None:
        """A dot in a label is not a step into another table (F-119)."""
        data = write_lock(lock_world())
        assert b'[packages.variants-json.variants."cu12.6".nvidia]' in data
        table = tomllib.loads(data.decode())
        (variants,) = (
            package["variants-json"]["variants"]
            for package in table["packages"]
            if "variants-json" in package
        )
        assert {"cu12.6", "cu12.8"} <= variants.keys()

    def test_packaging_refuses_labels(self) -> None:
        """Packaging refuses the file as it is, so it is checked without what it cannot know."""
        with pytest.raises(PylockValidationError):
            Pylock.from_dict(tomllib.loads(EXAMPLE))
        assert read_lock(EXAMPLE.encode(), where="pylock.toml").notes == ()

    def test_a_wheel_is_named_by_its_place_too(self) -> None:
        """Without a name the end of the path, else of the URL, percent-decoded once, counts."""
        wheel = {"url": "https://x.invalid/x/fastfft-2.1%2B1-py3-none-any-v3.whl?a=b#c"}
        other = {"path": "..\\wheels\\fastfft-2.1+1-py3-none-any.whl", "url": "https://x.invalid/y"}
        wheels = [{**one, "hashes": {"md5": "0"}} for one in (wheel, other)]
        entry = {"name": "fastfft", "wheels": wheels, "variants-json": DOCUMENT}
        (package,) = Lock.of(lock_table(entry)).packages
        assert [wheel.filename.text for wheel in package.wheels] == [
            "fastfft-2.1+1-py3-none-any-v3.whl",
            "fastfft-2.1+1-py3-none-any.whl",
        ]
        assert str(package.version) == "2.1+1"


class TestRewriting:
    """A rewrite loses nothing that is data (F-117)."""

    TABLE = lock_table(
        variant_entry(
            "cu12.6",
            None,
            **{
                "x-package": {"deep": [{"a": 1}, {"b": [[], [1.5, float("inf")]]}]},
                "attestation-identities": [{"kind": "x", "new": True}],
                "tool": {"other": {"when": datetime(2026, 1, 2, 3, 4, 5, 6, UTC)}, "wheelfit": {}},
            },
        ),
        {
            "name": "editable",
            "directory": {"path": "../e", "editable": True, "x": date(2026, 1, 2)},
        },
        {
            "name": "versioned",
            "vcs": {"type": "git", "url": "https://x.invalid/", "commit-id": "0", "x": ""},
        },
        environments=["sys_platform == 'linux'"],
        tool={"uv": {"x": time(1, 2, 3)}},
        **{"x-top": "\x00\x7f\"'\\ \u2028 \U0001f600", "requires-python": ">=3.11"},
    )

    def test_unknown_keys_stay(self) -> None:
        """Keys and tables that nobody knows are there afterwards, at every level."""
        self.TABLE["packages"][0]["wheels"][0]["x-wheel"] = -(2**63)
        lock = read_lock(tomli_w.dumps(self.TABLE).encode(), where="pylock.toml")
        again = tomllib.loads(write_lock(lock).decode())
        assert again == self.TABLE

    def test_the_order_stays(self) -> None:
        """Packages, wheels and keys come in the order in which they were."""
        first = read_lock(tomli_w.dumps(self.TABLE).encode(), where="pylock.toml")
        keys = [key for key in self.TABLE if not isinstance(self.TABLE[key], dict | list)]
        written = tomllib.loads(write_lock(first).decode())
        assert [key for key in written if key in keys] == keys
        assert [package["name"] for package in written["packages"]] == [
            "fastfft",
            "editable",
            "versioned",
        ]

    def test_writing_has_one_layout(self) -> None:
        """Whatever layout was read, what is written is read and written as the same bytes."""
        lock = read_lock(EXAMPLE.encode(), where="pylock.toml")
        data = write_lock(lock)
        again = read_lock(data, where="pylock.toml")
        assert again == lock
        assert write_lock(again) == data

    def test_a_lock_cannot_be_changed_from_outside(self) -> None:
        """What is given to a lock and what comes from it are copies."""
        table = lock_table(plain_entry("a"))
        lock = Lock.of(table)
        table["packages"].clear()
        lock.to_mapping()["packages"].clear()
        assert lock == Lock.of(lock_table(plain_entry("a")))
        assert len(lock.packages) == 1


class TestBrokenVariants:
    """What a broken table costs (F-117, F-130, F-134)."""

    def test_without_a_plain_wheel_it_is_an_error(self) -> None:
        """Every fault is named, with its place in the lock (F-134)."""
        entry = variant_entry("cu12.6", "v3")
        variants = entry["variants-json"]["variants"]
        variants["cu12.6"]["nvidia"]["cuda_version_lower_bound"] = []
        variants["v3"] = {"unlisted": {"a": ["b"]}}
        faults = faults_of(lock_table(plain_entry("a"), entry))
        assert faults == {
            'packages[1].variants-json.variants["cu12.6"].nvidia.cuda_version_lower_bound': (
                "at least one value is needed F-23"
            ),
            "packages[1].variants-json.variants.v3.unlisted": (
                "the namespace 'unlisted' is not in the priorities F-21"
            ),
        }

    @pytest.mark.parametrize(
        "table",
        [
            {},
            5,
            {"$schema": "https://elsewhere.example/v1.0.0.json", "variants": {}},
            {**DOCUMENT, "variants": []},
            {**DOCUMENT, "$schema": DOCUMENT["$schema"].replace("v0.2.0", "v9.0.0")},
            {**DOCUMENT, "variants": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {}}}}}}}}},
        ],
    )
    def test_with_a_plain_wheel_it_is_a_note(self, table: object) -> None:
        """The plain wheel stays, the variants are out (F-134)."""
        entry = variant_entry("cu12.6", None)
        entry["variants-json"] = table
        lock = Lock.of(lock_table(entry))
        assert lock.packages[0].document is None
        assert "only plain wheels are used (F-134)" in lock.notes[0]
        faults = faults_of(lock_table(entry), strict=True)
        assert all(path.startswith("packages[0].variants-json") for path in faults)

    def test_beside_a_plain_wheel_a_broken_label_costs_itself(self) -> None:
        """The other labels stay usable (F-130)."""
        entry = variant_entry("cu12.6", "v3", None)
        entry["variants-json"]["variants"]["cu12.6"] = {"nvidia": 1}
        (package,) = Lock.of(lock_table(entry)).packages
        assert package.document is not None
        assert package.document.properties("cu12.6") is None
        assert package.document.properties("v3") is not None
        assert any("1 label is unusable" in note for note in package.notes)

    @pytest.mark.parametrize(
        "source",
        [
            {"vcs": {"type": "git", "url": "https://x.invalid/", "commit-id": "0"}},
            {"directory": {"path": "."}},
            {"sdist": {"url": "https://x.invalid/fastfft-2.1.tar.gz", "hashes": {"md5": "0"}}},
            {"archive": {"url": "https://x.invalid/fastfft-2.1.zip", "hashes": {"md5": "0"}}},
        ],
    )
    def test_only_wheels_have_variants(self, source: dict[str, Any]) -> None:
        """A table beside anything else is ignored, and an error if one is strict (F-124)."""
        entry = {"name": "fastfft", **source, "variants-json": DOCUMENT}
        (package,) = Lock.of(lock_table(entry)).packages
        assert package.document is None
        assert "F-124" in package.notes[0]
        assert "F-124" in faults_of(lock_table(entry), strict=True)["packages[0].variants-json"]


class TestFaults:
    """Everything wrong with a lock is said at once, with its place."""

    def test_standard_and_own_faults(self) -> None:
        """All of our faults are named, and the first one that packaging finds."""
        table = lock_table(
            plain_entry("a", marker='"nvidia" in variant_namespaces'),
            {
                "name": "b",
                "version": "1",
                "wheels": [
                    {"url": "https://x.invalid/b-1-py3-none-any-CAPITALS.whl", "hashes": {"a": ""}},
                    {"url": "https://x.invalid/b-1-py3-none-any.whl", "hashes": {}},
                ],
            },
            {"name": "c", "archive": {"url": 1, "hashes": {"a": "b"}}, "marker": "no"},
            tool={"wheelfit": {"roots": ["torch", "a ; variant_label == ''", 1]}},
            **{"requires-python": "three"},
        )
        faults = faults_of(table)
        assert list(faults) == [
            "tool.wheelfit.roots[1]",
            "tool.wheelfit.roots[2]",
            "packages[0].marker",
            "packages[1].wheels[0]",
            "packages[2].marker",
            "requires-python",
        ]
        assert "F-109" in faults["packages[0].marker"]
        assert "F-12" in faults["packages[1].wheels[0]"]
        assert faults["requires-python"] == "invalid specifier: 'three'"

    @pytest.mark.parametrize(
        ("entry", "path", "problem"),
        [
            ({"name": "Not_Normal", "directory": {"path": "."}}, "name", "not normalized"),
            (
                {"name": "b", "wheels": [{"url": "https://x.invalid/b-1-py3-none-any.whl"}]},
                "wheels[0].hashes",
                "missing required value",
            ),
            ({"name": "c", "archive": {"url": 1, "hashes": {"a": "b"}}}, "archive.url", "str"),
            ({"name": "d"}, "", "one of"),
            (5, "", "expected a table, found a number"),
        ],
    )
    def test_standard_fault(self, entry: Any, path: str, problem: str) -> None:
        """What packaging finds has its place in the lock."""
        ((where, message),) = faults_of(lock_table(plain_entry("a"), entry)).items()
        assert where == f"packages[1].{path}".rstrip(".")
        assert problem in message

    def test_variant_markers_have_no_wheel_there(self) -> None:
        """``packages.marker`` and ``environments`` cannot ask for a variant (F-109, F-118)."""
        faults = faults_of(
            lock_table(
                plain_entry("a", marker="extras == 'x' or variant_label != 'null'"),
                environments=["'a :: b' in variant_features"],
            )
        )
        assert faults["environments[0]"].startswith("variant_features cannot be used here")
        assert faults["packages[0].marker"].startswith("variant_label cannot be used here")

    def test_what_every_wheel_of_another_project_is(self) -> None:
        """A labelled wheel of another project or version is a fault as a plain one is."""
        entry = variant_entry("v3")
        entry["name"] = "other"
        assert "not consistent" in faults_of(lock_table(entry))["packages[0].wheels[0]"]
        entry = variant_entry("v3", version="2.2")
        assert "not consistent" in faults_of(lock_table(entry))["packages[0].wheels[0]"]

    def test_nobody_reads_a_thousand_faults(self) -> None:
        """The first hundred are told, and that there are others."""
        roots = [f"{number} ;" for number in range(1000)]
        faults = faults_of(lock_table(tool={"wheelfit": {"roots": roots}}))
        assert faults[""] == "and more faults"
        assert len(faults) == 101

    @pytest.mark.parametrize(
        ("needs", "path", "problem"),
        [
            (5, "", "expected a table"),
            ({"cu12.6": "numpy"}, '["cu12.6"]', "expected an array"),
            ({"": ["num py"]}, '[""][0]', "is not a requirement"),
            ({"": ["a; 'v3' in variant_label"]}, '[""][0]', "is not a requirement"),
            ({"null": [1]}, ".null[0]", "expected a string"),
        ],
    )
    def test_our_own_table_is_checked(self, needs: object, path: str, problem: str) -> None:
        """A table of needs that cannot be followed is a fault and not a guess (F-121)."""
        entry = variant_entry("v3", tool={"wheelfit": {"variant-dependencies": needs}})
        found = faults_of(lock_table(entry))
        assert problem in found[f"packages[0].tool.wheelfit.variant-dependencies{path}"]

    @pytest.mark.parametrize("version", ["2.0", "0.9", "x", 1, "1." + "9" * 5000])
    def test_other_versions_of_the_file_are_refused(self, version: object) -> None:
        """Only major version 1 is understood (PEP 751)."""
        faults = faults_of({**lock_table(plain_entry("a")), "lock-version": version})
        assert "lock-version" in faults or "is not supported" in faults[""]

    def test_a_newer_minor_version_is_read(self, capfd: pytest.CaptureFixture[str]) -> None:
        """With a note, and nothing on the terminal (PEP 751)."""
        lock = Lock.of({**lock_table(plain_entry("a")), "lock-version": "1.1"})
        assert "version 1.1" in lock.notes[0]
        assert lock.to_mapping()["lock-version"] == "1.1"
        assert capfd.readouterr() == ("", "")


class TestHostile:
    """What a stranger wrote costs little and ends in one kind of error (F-30)."""

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"\xef\xbb\xbfa = 1", "byte order mark"),
            (b"a = '\xff'", "not UTF-8"),
            (b"a = ", "not TOML"),
            (b"a = 1\na = 2", "not TOML"),
            (b"a = " + b"9" * 5000, "number that cannot be read"),
            (b"a = 0x" + b"f" * 40, "more than 64 bits"),
            (b"a = " + b"[" * 50_000, "nested deeper"),
            (b"a = " + b"[" * 40 + b"]" * 40, "nested deeper"),
            (b"a = " + b"{b = " * 40, "nested deeper"),
            (b".".join([b"a"] * 50_000) + b" = 1", "nested deeper"),
            (b"[" + b" . ".join([b'"a"'] * 100) + b"]", "nested deeper"),
            (b"[" + b"a." * 20 + b"b]\n" + b"c." * 20 + b"d = {}", "nested deeper"),
            (b'a = "' + b'\\"' * 100_000, "not TOML"),
            (b"a = '''" + b"''\n" * 100_000, "not TOML"),
            (b"", "missing required value"),
            (b"packages = 5\nlock-version = '1.0'\ncreated-by = ''", "expected Sequence"),
        ],
    )
    def test_bad_files(self, data: bytes, message: str) -> None:
        """Each is refused with what is wrong, and no other error."""
        with pytest.raises(InvalidLock) as excinfo:
            read_lock(data, where="pylock.toml")
        assert excinfo.value.where == "pylock.toml"
        assert message in str(excinfo.value)

    def test_limits_are_the_callers(self) -> None:
        """Size and number of entries are limited before anything is parsed (F-30)."""
        data = write_lock(lock_world())
        for limits in (TomlLimits(size=len(data) - 1), TomlLimits(entries=20), TomlLimits(depth=4)):
            with pytest.raises(InvalidLock, match=r"limit|more than"):
                read_lock(data, where="pylock.toml", limits=limits)
        assert read_lock(data, where="pylock.toml", limits=TomlLimits(size=len(data))).packages

    def test_brackets_in_strings_do_not_count(self) -> None:
        """Texts and comments may hold anything."""
        text = "[{" * 40 + "." * 40
        table = lock_table(plain_entry("a"), x=text, **{text: "'''\"\"\"#"})
        data = b"# " + text.encode() + b"\n" + tomli_w.dumps(table, multiline_strings=True).encode()
        assert read_lock(data, where="pylock.toml").to_mapping() == table


class TestNames:
    """How lock files are called (PEP 751)."""

    @pytest.mark.parametrize("text", ["pylock.toml", "pylock.dev.toml", "pylock.a-b_c.toml"])
    def test_good_names(self, text: str) -> None:
        """``pylock.toml``, or one name without dots between its parts."""
        assert is_lock_name(text)

    @pytest.mark.parametrize(
        "text", ["pylock", "Pylock.toml", "pylock..toml", "pylock.a.b.toml", "x.pylock.toml", ""]
    )
    def test_bad_names(self, text: str) -> None:
        """Anything else is not a lock file."""
        assert not is_lock_name(text)

    def test_making_names(self) -> None:
        """A name is made or refused, never changed."""
        assert lock_name("dev") == "pylock.dev.toml"
        for bad in ("a.b", "a/b", "..", "a\\b"):
            with pytest.raises(UserError, match="is not a valid name"):
                lock_name(bad)
