"""Sound archives that lie: about their files, their name, their commands, their variant."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hostile.archives import members_of, rebuilt
from hostile.conftest import Site

from wheelfit.testing.wheels import SCHEMA, build_wheel, release_document

EVIL = b"raise SystemExit('owned')\n"
INFO = "demo-2.dist-info"
RECORD = f"{INFO}/RECORD"
NAME = "demo-2-py3-none-any.whl"
LONG = "9" * 5000
"""More digits than Python reads as a number."""


def row(changed: Callable[[str], str]) -> Callable[[Path], bytes]:
    """Change RECORD, and nothing else."""

    def make(wheel: Path) -> bytes:
        text = members_of(wheel)[RECORD].decode()
        return rebuilt(
            wheel, {RECORD: changed(text).encode("utf-8", "surrogateescape")}, honest=False
        )

    return make


def _with_row(added: str, text: str) -> str:
    """Return a RECORD with one more row."""
    return text + added


class TestRecord:
    """RECORD and the archive disagree (PEP 376, PEP 427)."""

    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(
                lambda wheel: rebuilt(wheel, {"demo/__init__.py": EVIL}, honest=False), id="hash"
            ),
            pytest.param(
                lambda wheel: rebuilt(wheel, {"demo/evil.py": EVIL}, honest=False), id="no row"
            ),
            pytest.param(row(lambda _: ""), id="empty"),
            pytest.param(row(lambda text: text.replace("sha256=", "md5=")), id="weak hash"),
            pytest.param(row(lambda text: text.replace("sha256=", "sha999=")), id="no such hash"),
            pytest.param(row(lambda text: text.replace("sha256=", "sha256=AA")), id="long hash"),
            pytest.param(row(lambda text: text.split("\n", 1)[1]), id="row missing"),
            pytest.param(row(lambda text: text + text), id="rows twice"),
            pytest.param(row(lambda text: text.replace("\n", ",x\n")), id="four columns"),
            pytest.param(row(lambda text: text.replace(",5", ",6", 1) + "\0"), id="NUL"),
            pytest.param(row(lambda text: text + '"demo'), id="open quote"),
            pytest.param(row(lambda text: text + "\udcff,,\n"), id="not UTF-8"),
            pytest.param(
                row(lambda text: text.replace("demo/__init__.py", "../demo/__init__.py")),
                id="moved out",
            ),
            pytest.param(
                lambda wheel: rebuilt(
                    wheel,
                    {
                        RECORD: b"\n".join(
                            line.rpartition(b",")[0] + b"," + LONG.encode()
                            for line in members_of(wheel)[RECORD].splitlines()
                        )
                    },
                    honest=False,
                ),
                id="endless size",
            ),
        ],
    )
    def test_a_record_that_does_not_fit(self, site: Site, make: Callable[[Path], bytes]) -> None:
        """Every file needs one row with a strong hash that is right; otherwise exit code 4."""
        site.shelf.put(make(build_wheel(site.wheels, "demo", "2")), NAME)
        said = site.refused("demo", code=4)
        assert said.error["code"] == "invalid-wheel"

    def test_digests_in_hexadecimal(self, site: Site) -> None:
        """B-36: they promise as much as those in base64, so they count, and must be right."""
        wheel = build_wheel(site.wheels, "demo", "2")

        def in_hexadecimal(text: str) -> str:
            return re.sub(
                r"sha256=([\w-]+)",
                lambda found: f"sha256={base64.urlsafe_b64decode(found[1] + '=').hex()}",
                text,
            )

        wrong = row(lambda text: in_hexadecimal(text).replace("sha256=", "sha256=00", 1))
        site.shelf.put(wrong(wheel), NAME)
        site.refused("demo", code=4)
        site.shelf.forget()
        lying = row(lambda text: re.sub("sha256=..", "sha256=00", in_hexadecimal(text)))
        site.shelf.put(lying(build_wheel(site.wheels, "demo", "2")), NAME)
        site.refused("demo", code=4)
        site.shelf.forget()
        site.shelf.put(row(in_hexadecimal)(build_wheel(site.wheels, "demo", "2")), NAME)
        site.run("install", "demo")
        assert not re.search(r"sha256=[0-9a-f]{64}", (site.library / RECORD).read_text())

    def test_rows_outside_are_not_taken_over(self, site: Site) -> None:
        """GHSA-pjjw-68hj-v9mw: rows that lead out of the environment do not get into it."""
        victim = site.folder / "home" / "precious.txt"
        victim.write_text("precious")
        up = "../" * 10
        rows = (f"{up}{str(victim).lstrip('/')},,\n", f"{victim},,\n", "../../../pyvenv.cfg,,\n")
        for added in rows:
            wheel = row(partial(_with_row, added))(build_wheel(site.wheels, "demo", "2"))
            site.shelf.put(wheel, NAME)
            site.refused("demo", code=4)
            site.shelf.forget()
        assert victim.read_text() == "precious"
        assert (site.venv / "pyvenv.cfg").exists()

    @pytest.mark.parametrize(
        "line",
        [
            "{outside},,",
            "../../../../home/precious.txt,,",
            "../../../pyvenv.cfg,,",
            "../../../bin/python,,",
            "other-1.dist-info/RECORD,,",
            "other/__init__.py,,",
            "link/precious.txt,,",
            "../../../alias/{library}/other/__init__.py,,",
            "../../../alias/{library}/other-1.dist-info/METADATA,,",
        ],
    )
    def test_rows_that_appear_later(self, site: Site, line: str) -> None:
        """What somebody writes into an installed RECORD does not widen what is removed."""
        outside = site.folder / "home" / "precious.txt"
        outside.write_text("precious")
        for name in ("demo", "other"):
            site.shelf.put(build_wheel(site.wheels, name, "1"))
        site.run("install", "demo", "other")
        (site.library / "link").symlink_to(outside.parent)
        record = site.library / "demo-1.dist-info" / "RECORD"
        (site.venv / "alias").symlink_to("lib")
        library = site.library.relative_to(site.venv / "lib")
        line = line.format(outside=outside, library=library)
        record.write_text(f"{record.read_text()}{line}\n")
        before = site.world()
        leads_out = "precious" in line
        result = site.run("uninstall", "demo", code=1 if leads_out else 0)
        left = site.world()
        if leads_out:
            assert "lies outside" in result.err
            assert left == before
        gone = {name for name in before.keys() - left.keys() if "/__pycache__" not in name}
        assert all("/site-packages/demo" in name for name in gone)
        assert left == {name: before[name] for name in left}


class TestIdentity:
    """The name of the file, of the folder and in METADATA (pip 26.2 #13983)."""

    @pytest.mark.parametrize(
        ("inside", "code"),
        [
            (b"Metadata-Version: 2.1\nName: other\nVersion: 2\n", 4),
            (b"Metadata-Version: 2.1\nName: demo\nVersion: 3\n", 4),
            (b"Metadata-Version: 2.1\nName: demo\nVersion: nonsense\n", 4),
            (b"Metadata-Version: 2.1\nName: demo\nVersion: " + LONG.encode() + b"\n", 4),
            (b"Metadata-Version: 2.1\nName: ../demo\nVersion: 2\n", 4),
            (b"Metadata-Version: 2.1\nVersion: 2\n", 4),
            (b"", 4),
            (b"\xff\xfe\x00", 4),
        ],
    )
    def test_another_metadata(self, site: Site, inside: bytes, code: int) -> None:
        """METADATA of something else than was chosen is refused (exit code 4)."""
        wheel = build_wheel(site.wheels, "demo", "2")
        sound = members_of(wheel)[f"{INFO}/METADATA"]
        site.shelf.put(rebuilt(wheel, {f"{INFO}/METADATA": inside}), NAME, metadata=sound)
        site.refused("demo", code=code)

    @pytest.mark.parametrize(
        "beside",
        [
            b"Metadata-Version: 2.1\nName: other\nVersion: 2\n",
            b"Metadata-Version: 2.1\nName: demo\nVersion: 3\n",
            b"Metadata-Version: 2.1\nName: demo\nVersion: " + LONG.encode() + b"\n",
            b"Metadata-Version: 2.1\nName: demo\nVersion: 2\nRequires-Dist: a==" + LONG.encode(),
            b"Metadata-Version: 2.1\nName: demo\nVersion: 2\nRequires-Dist: a;" + b"(" * 10_000,
            b"Metadata-Version: 2.1\nName: demo\nVersion: 2\nRequires-Dist: a @ file:///etc/passwd",
            b"Metadata-Version: 2.1\nName: demo\nVersion: 2\nRequires-Dist: a @ http://x.invalid/",
            b"Metadata-Version: 2.1\nName: demo\nVersion: 2\nRequires-Dist: -r evil.txt\n",
            b"<html></html>",
            b"",
        ],
    )
    def test_metadata_beside_that_is_of_no_use(self, site: Site, beside: bytes) -> None:
        """F-94: such a wheel is not chosen; the older one is, if there is one."""
        site.shelf.put(build_wheel(site.wheels, "demo", "2"), metadata=beside)
        result = site.attempt("install", "--json", "demo")
        assert result.code in {3, 4}
        site.shelf.put(build_wheel(site.wheels, "demo", "1"))
        site.run("install", "demo")
        assert (site.library / "demo-1.dist-info").exists()

    def test_metadata_beside_that_hides_a_dependency(self, site: Site) -> None:
        """What is installed needs what was resolved: other dependencies inside are refused."""
        wheel = build_wheel(site.wheels, "demo", "2", requires=["other"])
        site.shelf.put(wheel, metadata=b"Metadata-Version: 2.1\nName: demo\nVersion: 2\n")
        said = site.refused("demo", code=4)
        assert said.error["code"] == "metadata-disagreement"

    @pytest.mark.parametrize(
        "filename",
        [
            "other-2-py3-none-any.whl",
            "demo-3-py3-none-any.whl",
            "demo-2-py3-none-any-cu128.whl",
        ],
    )
    def test_another_file_name(self, site: Site, filename: str) -> None:
        """F-27: dist-info is that of another release, or a variant.json is missing."""
        site.shelf.put(build_wheel(site.wheels, "demo", "2"), filename)
        result = site.attempt("install", "--json", filename.partition("-")[0])
        assert result.code in {3, 4}

    @pytest.mark.parametrize(
        "filename",
        [
            f"demo-{LONG}-py3-none-any.whl",
            f"demo-2-{LONG}-py3-none-any.whl",
            f"demo-{LONG}.tar.gz",
            f"demo-{LONG}-variants.json",
            "demo-2-py3-none-any-" + "x" * 300 + ".whl",
            "demo-2-" + ".".join(["py3"] * 500) + "-none-any.whl",
            "demo-2-py3-none-any-...whl",
            "demo-2-py3-none-any-..whl",
            "demo-2-py3-none-any-\u0441u128.whl",
            "demo-2-py3-none-any-cu128\u200b.whl",
            "demo-2-py3-none-any-con.whl",
            "demo-..-py3-none-any.whl",
            "demo-2-py3-none-any.whl\u202egpj.whl",
            "demo-2-py3-none-any.WHL",
            "-2-py3-none-any.whl",
            ".whl",
        ],
    )
    @pytest.mark.parametrize("html", [False, True], ids=["json", "html"])
    def test_a_file_name_that_is_none(self, site: Site, filename: str, html: bool) -> None:  # noqa: FBT001
        """F-16: a file whose name means nothing is left out, the others count."""
        site.index.faults.html_only = html
        wheel = build_wheel(site.wheels, "demo", "1")
        site.shelf.put(wheel)
        site.shelf.put(wheel.read_bytes(), filename, project="demo", metadata=False)
        site.run("install", "demo")
        assert (site.library / "demo-1.dist-info").exists()


class TestFilesOfOthers:
    """What is there already, and belongs to somebody else."""

    @pytest.mark.parametrize(
        "name",
        [
            "other/__init__.py",
            "Other/../other/__init__.py",
            "other-1.dist-info/RECORD",
            "other-1.dist-info/entry_points.txt",
            "demo-2.data/purelib/other/__init__.py",
            "demo-2.data/data/pyvenv.cfg",
            "demo-2.data/data/bin/pyvenv.cfg",
            "demo-2.data/scripts/pyvenv.cfg",
            "demo-2.data/scripts/python._pth",
            "demo-2.data/scripts/python",
            "demo-2.data/scripts/python3",
            "demo-2.data/scripts/Python.exe",
            "demo-2.data/data/bin/python",
            "demo-2.data/data/bin/activate",
            "demo-2.data/scripts/activate",
            "demo-2.data/scripts/pip",
            "demo-2.data/nowhere/x",
            "demo-2.data/data/BIN/../bin/python",
            "demo-2.data/purelib/other-1.dist-info/METADATA",
            "demo-2.data/purelib/new-1.dist-info/METADATA",
            "demo-2.data/platlib/New-1.DIST-INFO/METADATA",
            "demo-2.data/data/{library}/new-1.dist-info/METADATA",
            "demo-2.data/data/{library}/new-1.egg-info/PKG-INFO",
            "demo-2.data/purelib/demo-2.dist-info/RECORD",
            "demo-2.data/purelib/demo-2.dist-info/INSTALLER",
            "NEW-1.Dist-Info/METADATA",
            "new.egg-info/PKG-INFO",
            "new-1.egg-info",
            "other-1.data/scripts/tool",
            "demo-3.data/purelib/evil.py",
            "DEMO-2.DATA/scripts/evil",
        ],
    )
    @pytest.mark.parametrize(
        "options",
        [pytest.param((), marks=pytest.mark.corpora), ("--replace-files",)],
        ids=["", "replacing"],
    )
    def test_they_stay(self, site: Site, name: str, options: tuple[str, ...]) -> None:
        """Nothing of the environment or of another distribution is overwritten, even when asked."""
        scripts = {"console_scripts": {"pip": "pip:main"}}
        site.shelf.put(build_wheel(site.wheels, "pip", "1", entry_points=scripts))
        site.shelf.put(build_wheel(site.wheels, "other", "1"))
        site.run("install", "other", "pip")
        wheel = build_wheel(site.wheels, "demo", "2")
        library = site.library.relative_to(site.venv).as_posix()
        site.shelf.put(rebuilt(wheel, {name.format(library=library): EVIL}), NAME)
        site.refused("demo", *options, code=4)

    @pytest.mark.parametrize("folder", ["lib64", "LIB"])
    def test_not_by_another_way(self, site: Site, folder: str) -> None:
        """A folder that is a link to another one does not hide whose file it is."""
        link = site.venv / folder
        if not link.exists():
            link.symlink_to("lib")
        site.shelf.put(build_wheel(site.wheels, "other", "1"))
        site.run("install", "other")
        library = site.library.relative_to(site.venv / "lib")
        name = f"demo-2.data/data/{folder}/{library.as_posix()}/other/__init__.py"
        site.shelf.put(rebuilt(build_wheel(site.wheels, "demo", "2"), {name: EVIL}), NAME)
        site.refused("demo", "--replace-files", code=4)

    def test_not_through_a_link(self, site: Site) -> None:
        """CVE-2026-34591: a link in the environment leads nowhere outside."""
        home = site.folder / "home"
        (site.library / "demo").symlink_to(home)
        site.shelf.put(build_wheel(site.wheels, "demo", "2"))
        site.refused("demo", code=4)
        assert list(home.iterdir()) == []

    def test_not_each_other(self, site: Site) -> None:
        """Two wheels of one installation may not have the same file."""
        site.shelf.put(build_wheel(site.wheels, "one", "1", files={"same.py": "1"}))
        site.shelf.put(build_wheel(site.wheels, "two", "1", files={"same.py": "2"}))
        site.refused("one", "two", code=4)


class TestCommands:
    """Entry points become files and code (CVE-2026-8643, GHSA-4gg8-gxpx-9rph)."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("../evil", "demo:main"),
            ("/tmp/evil", "demo:main"),
            ("..", "demo:main"),
            (".", "demo:main"),
            ("sub/evil", "demo:main"),
            ("sub\\evil", "demo:main"),
            ("C:evil", "demo:main"),
            ("evil\x00", "demo:main"),
            ("evil\x1b[2J", "demo:main"),
            ("", "demo:main"),
            ("python", "demo:main"),
            ("Python", "demo:main"),
            ("PYTHON3.EXE", "demo:main"),
            ("python3", "demo:main"),
            ("python3.11", "demo:main"),
            ("pythonw.exe", "demo:main"),
            ("pypy3", "demo:main"),
            ("evil", "demo"),
            ("evil", "demo:"),
            ("evil", "../demo:main"),
            ("evil", "demo:main();__import__('os').abort()"),
            ("evil", "demo:main\n    import os"),
            ("evil", "demo:import"),
            ("evil", ""),
        ],
    )
    @pytest.mark.parametrize("group", ["console_scripts", "gui_scripts"])
    def test_a_bad_one(self, site: Site, group: str, name: str, value: str) -> None:
        """Names are plain file names that shadow no interpreter, values name functions."""
        wheel = build_wheel(site.wheels, "demo", "2")
        text = f"[{group}]\n{name} = {value}\n".encode()
        site.shelf.put(rebuilt(wheel, {f"{INFO}/entry_points.txt": text}), NAME)
        said = site.refused("demo", code=4)
        assert said.error["code"] == "invalid-wheel"

    def test_pip_of_another(self, site: Site) -> None:
        """A command named pip does not take the place of the one that is there."""
        scripts = {"console_scripts": {"pip": "pip:main"}}
        site.shelf.put(build_wheel(site.wheels, "pip", "1", entry_points=scripts))
        site.run("install", "pip")
        evil = {"console_scripts": {"pip": "demo:main"}}
        site.shelf.put(build_wheel(site.wheels, "demo", "2", entry_points=evil))
        said = site.refused("demo", code=4)
        assert said.error["code"] == "file-conflict"


class TestVariantInside:
    """The document inside a wheel is not the one it was chosen by (F-24, F-27, F-93)."""

    DOCUMENT = release_document(
        {"blas": {"blas": {"library": ["mkl"]}}, "open": {"blas": {"library": ["openblas"]}}},
        static={"blas": {"library": ["mkl", "openblas"]}},
    )

    @staticmethod
    def single(label: str, properties: object, **changes: object) -> dict[str, Any]:
        """Return a document with one label."""
        return {
            "$schema": SCHEMA,
            "default-priorities": {"namespace": ["blas"]},
            "providers": {"blas": {"static-properties": {"library": ["mkl", "openblas"]}}},
            "variants": {label: properties},
            **changes,
        }

    MKL: Mapping[str, object] = {"blas": {"library": ["mkl"]}}

    @pytest.mark.parametrize(
        "inside",
        [
            pytest.param(b"not JSON", id="not JSON"),
            pytest.param(b"", id="empty"),
            pytest.param(b"[]", id="a list"),
            pytest.param(b'{"a":' * 100_000, id="deep"),
            pytest.param(("other", MKL), id="another label"),
            pytest.param(("null", MKL), id="null with properties"),
            pytest.param(("blas", {"blas": {"library": ["openblas"]}}), id="other properties"),
            pytest.param(("blas", {}), id="no properties"),
            pytest.param(("blas", {"nvidia": {"sm_arch": ["90_real"]}}), id="another namespace"),
            pytest.param(("blas", {"blas": {"library": ["mkl", "openblas"]}}), id="more values"),
            pytest.param(("blas", "text"), id="wrong type"),
            pytest.param(None, id="missing"),
        ],
    )
    @pytest.mark.parametrize("plain", [True, False], ids=["with plain", "alone"])
    def test_only_that_wheel_is_refused(self, site: Site, inside: Any, plain: bool) -> None:  # noqa: FBT001
        """Section 4 of the attacks: the next candidate is taken, with a warning."""
        wheel = build_wheel(site.wheels, "demo", "2", label="blas", document=self.DOCUMENT)
        if isinstance(inside, tuple):
            inside = json.dumps(self.single(*inside)).encode()
        name = f"{INFO}/variant.json"
        site.shelf.put(rebuilt(wheel, {name: inside}), wheel.name)
        site.shelf.put(json.dumps(self.DOCUMENT).encode(), "demo-2-variants.json", metadata=False)
        if plain:
            site.shelf.put(build_wheel(site.wheels, "demo", "2"))
            result = site.run("install", "demo")
            assert site.installed() == {"demo": None}
            assert "warning: " in result.err
            assert wheel.name in result.err
        else:
            result = site.attempt("install", "--json", "demo")
            assert result.code in {3, 4}

    def test_two_labels_inside(self, site: Site) -> None:
        """F-24: a wheel describes its own label only."""
        wheel = build_wheel(site.wheels, "demo", "2", label="blas", document=self.DOCUMENT)
        both = json.dumps(self.DOCUMENT).encode()
        site.shelf.put(rebuilt(wheel, {f"{INFO}/variant.json": both}), wheel.name)
        site.shelf.put(both, "demo-2-variants.json", metadata=False)
        site.shelf.put(build_wheel(site.wheels, "demo", "2"))
        site.run("install", "demo")
        assert site.installed() == {"demo": None}

    @pytest.mark.parametrize("size", [5 << 20, 65 << 20])
    def test_a_huge_document_inside(self, site: Site, size: int) -> None:
        """F-30: it is refused by its size, and not a byte of it is fetched."""
        wheel = build_wheel(site.wheels, "demo", "2", label="blas", document=self.DOCUMENT)
        huge = json.dumps(self.single("blas", self.MKL)).encode() + b" " * size
        site.shelf.put(rebuilt(wheel, {f"{INFO}/variant.json": huge}), wheel.name, metadata=True)
        site.shelf.put(build_wheel(site.wheels, "demo", "2"))
        site.run("install", "demo")
        assert site.installed() == {"demo": None}
        assert site.index.bytes_sent(wheel.name) < 1 << 20

    @pytest.mark.parametrize("given", ["by path", "in a folder"])
    def test_on_this_machine(self, site: Site, given: str) -> None:
        """F-27: the same without an index."""
        wheel = build_wheel(site.wheels, "demo", "2", label="blas", document=self.DOCUMENT)
        other = json.dumps(self.single("other", self.MKL)).encode()
        wheel.write_bytes(rebuilt(wheel, {f"{INFO}/variant.json": other}))
        if given == "by path":
            result = site.attempt("install", "--json", wheel)
            assert result.code in {3, 4}
        else:
            build_wheel(site.wheels, "demo", "2")
            site.run("install", "demo", "--no-index", "-f", site.wheels)
            assert site.installed() == {"demo": None}
