"""Files and folders of this machine, good ones and others."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from checking.releases import (
    DOCUMENT,
    INDEX_FILE,
    check,
    codes,
    document,
    only,
    rewritten,
    sound_release,
    write,
)

from wheelfit.checking.findings import CheckedCounts, Report
from wheelfit.checking.targets import paths
from wheelfit.checking.targets.paths import check_paths
from wheelfit.sources.progress import Progress
from wheelfit.testing.wheels import build_large_wheel, build_wheel, single_label_document


class TestTargets:
    """What can be named."""

    def test_everything_below_a_folder(self, tmp_path: Path) -> None:
        """F-131: a release whose wheels lie in several folders is checked as one."""
        sound_release(tmp_path)
        for path in sorted(tmp_path.glob("*.whl")):
            folder = tmp_path / path.name.removesuffix(".whl")
            folder.mkdir()
            path.rename(folder / path.name)
        assert not check(tmp_path).findings
        (tmp_path / INDEX_FILE).write_bytes(b"{}")
        assert set(codes(check(tmp_path))) == {"wrong-keys"}

    def test_project(self, tmp_path: Path) -> None:
        """B-1: the faults of a project's [variant] table are found, if its file is named."""
        project = tmp_path / "pyproject.toml"
        project.write_text('[project]\nname = "spam"\n')
        assert check(project) == Report(counts=CheckedCounts(metadata_files=1))
        table = (
            "[variant]\ndefault-priorities.namespace = ['x86_64']\n"
            "providers.x86_64.requires = ['x86-64-variant-provider<1']\n"
            "variants.v3.x86_64.level = ['v3']\n"
        )
        project.write_text(table)
        assert check(project) == Report(counts=CheckedCounts(metadata_files=1))
        project.write_text(f"{table}variants.null.x86_64.level = [4]\nprovider = {{}}\n")
        findings = check(project).findings
        assert {finding.where for finding in findings} == {str(project)}
        assert [(finding.code, finding.line, finding.path) for finding in findings] == [
            ("wrong-type", 5, "variant.variants.null.x86_64.level[0]"),
            ("wrong-keys", 6, "variant.provider"),
        ]
        project.write_text("[variant")
        assert only(check(project), "unreadable-document").where == str(project)
        build_wheel(tmp_path, "spam", "1")
        assert not check(tmp_path).findings  # the wheels of a folder, and not its source

    def test_hidden_folders(self, tmp_path: Path) -> None:
        """Folders of environments and tools do not count."""
        sound_release(tmp_path)
        write(tmp_path / ".venv" / "fast-1.0-py3-none-any.whl", b"junk")
        assert check(tmp_path).counts.wheels == 4

    def test_files_are_looked_at_once(self, tmp_path: Path) -> None:
        """A file named twice, or by itself and by its folder, counts once."""
        path = sound_release(tmp_path) / INDEX_FILE
        assert check(path, tmp_path, path, tmp_path) == check(tmp_path)

    def test_one_wheel(self, tmp_path: Path) -> None:
        """Who names one wheel is not told what else its release lacks."""
        path = build_wheel(tmp_path, "fast", "1.0", label="mkl", document=DOCUMENT)
        assert not check(path).findings
        assert set(codes(check(tmp_path))) == {"no-plain-wheel", "no-index-file"}

    def test_some_files_of_a_release(self, tmp_path: Path) -> None:
        """F-93: files that are named one by one are compared with each other all the same."""
        folder = sound_release(tmp_path)
        more = {"nvidia": {"sm_arch": ["90_real"]}}
        spoilt = document(lambda d: d["variants"]["mkl"].update(more))
        index = write(tmp_path / "new" / INDEX_FILE, spoilt)
        report = check(folder / "fast-1.0-py3-none-any-mkl.whl", index)
        assert codes(report) == {"claims-disagree": 1}

    def test_a_source_distribution_will_do(self, tmp_path: Path) -> None:
        """A-2: other installers can build from source where there is no plain wheel."""
        sound_release(tmp_path)
        (tmp_path / "fast-1.0-py3-none-any.whl").unlink()
        assert codes(check(tmp_path)) == {"no-plain-wheel": 1}
        (tmp_path / "fast-1.0.tar.gz").write_bytes(b"")
        assert not check(tmp_path).findings

    @pytest.mark.parametrize(
        ("labels", "found"),
        [(["mkl"], {}), (["mkl", "null"], {"wrong-label": 1}), ([], {"wrong-label": 1})],
    )
    def test_a_document_without_its_wheel(
        self, tmp_path: Path, labels: list[str], found: dict[str, int]
    ) -> None:
        """F-24: a bare ``variant.json`` has one label, whichever that is."""
        variants = DOCUMENT["variants"]
        assert isinstance(variants, dict)
        whole = {**DOCUMENT, "variants": {label: variants[label] for label in labels}}
        path = write(tmp_path / "variant.json", whole)
        assert codes(check(path)) == found

    def test_an_unpacked_wheel(self, tmp_path: Path) -> None:
        """F-24: below a folder named like a wheel the label is known."""
        content = single_label_document(DOCUMENT, "mkl")
        write(tmp_path / "fast-1.0-py3-none-any-mkl.whl" / "variant.json", content)
        write(tmp_path / "fast-1.0-py3-none-any-cu128.whl" / "variant.json", content)
        finding = only(check(tmp_path), "wrong-label")
        assert "cu128" in finding.where
        assert "describes mkl" in finding.message

    def test_any_name_for_a_document(self, tmp_path: Path) -> None:
        """A document may be named with any name that ends in ``.json``."""
        path = write(tmp_path / "from-lock.json", document(lambda d: d.pop("variants")))
        assert codes(check(path)) == {"wrong-keys": 1}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_named_pipe(tmp_path: Path) -> None:
    """A pipe among the arguments is not opened: nobody may ever write to it."""
    for name in ("fast-1.0-py3-none-any.whl", "document.json", "pyproject.toml"):
        os.mkfifo(tmp_path / name)
        (target,) = check(tmp_path / name).unchecked
        assert target.message == "it is not an ordinary file"


class TestPages:
    """An ``index.html`` says what is published."""

    def page(self, folder: Path, names: list[str]) -> None:
        """Write a page that lists files, some on other hosts."""
        links = [f'<a href="{name}">{name.rpartition("/")[2]}</a>' for name in names]
        write(folder / "index.html", "\n".join(["<!DOCTYPE html>", *links]).encode())

    def test_wheels_on_other_hosts(self, tmp_path: Path) -> None:
        """F-73: wheels that are elsewhere count by name; the network is not asked."""
        write(tmp_path / INDEX_FILE, DOCUMENT)
        base = "https://files.invalid/fast-1.0-py3-none-any"
        self.page(tmp_path, [INDEX_FILE, f"{base}-cu128.whl", f"{base}-other.whl", f"{base}.whl"])
        report = check(tmp_path)
        assert codes(report) == {
            "no-hash": 1,
            "label-not-in-index": 1,
            "label-without-wheel": 2,
        }
        assert only(report, "label-not-in-index").where == f"{base}-other.whl"

    def test_links_to_another_folder(self, tmp_path: Path) -> None:
        """F-71: files may lie anywhere; those of this machine are opened wherever they are."""
        sound_release(tmp_path / "files")
        names = sorted(path.name for path in (tmp_path / "files").iterdir())
        self.page(tmp_path / "simple" / "fast", [f"../../files/{name}" for name in names])
        report = check(tmp_path / "simple")
        assert codes(report) == {"no-hash": 1}
        assert report.counts.wheels == 4

    def test_a_link_to_something_else(self, tmp_path: Path) -> None:
        """What lies under another name than the page says is told and not opened (F-131)."""
        write(tmp_path / "secret", b"nobody's business")
        link = '<a href="../secret">fast-1.0-py3-none-any.whl</a>'
        write(tmp_path / "simple" / "index.html", link.encode())
        report = check(tmp_path / "simple")
        assert codes(report) == {"strange-entry": 1}
        assert only(report, "strange-entry").message == (
            "the entry fast-1.0-py3-none-any.whl leads to a file with another name, secret"
        )
        assert report.counts.wheels == report.counts.index_files == 0

    def test_a_page_that_is_too_large(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A page is not read in part: a listed file could be missing."""
        monkeypatch.setattr(paths, "_MAX_PAGE_SIZE", 100)
        self.page(tmp_path, ["missing-1.0-py3-none-any.whl", "also_missing-1.0-py3-none-any.whl"])
        report = check(tmp_path)
        assert not report.findings
        assert [target.message for target in report.unchecked] == [
            "the page has more than 100 bytes"
        ]

    def test_a_page_about_something_else(self, tmp_path: Path) -> None:
        """Documentation is not an index."""
        sound_release(tmp_path)
        write(tmp_path / "docs" / "index.html", b'<a href="guide.html">Guide</a>')
        assert not check(tmp_path).findings

    def test_the_spelling_of_the_wheels_wins(self, tmp_path: Path) -> None:
        """F-78: of two index files the message says which one counts."""
        sound_release(tmp_path)
        write(tmp_path / "fast-1.0.0-variants.json", DOCUMENT)
        report = check(tmp_path)
        assert codes(report) == {"duplicate-index-file": 2, "misspelt-index-file": 1}
        for finding in report.findings:
            if finding.code == "duplicate-index-file":
                assert "only the one spelled like the wheels is used" in finding.message


class TestBadInput:
    """What cannot be read is said, and hides nothing else."""

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("fast-1.0-py3-none-any.whl", b""),
            ("fast-1.0-py3-none-any.whl", b"PK\x05\x06" + bytes(18)),
            ("fast-1.0-py3-none-any.whl", bytes(range(256)) * 20),
            ("fast-1.0-py3-none-any.whl", b"<!DOCTYPE html>"),
        ],
    )
    def test_no_archives(self, tmp_path: Path, name: str, content: bytes) -> None:
        """B-34: junk that is named like a wheel is an error, not the end."""
        build_wheel(tmp_path, "other", "1", requires=['a; "x" in variant_namespaces'])
        write(tmp_path / name, content)
        found = codes(check(tmp_path))
        assert found["unsound-archive"] == 1
        assert found["variant-marker-in-plain-wheel"] == 1

    @pytest.mark.parametrize(
        "content", [b"", b"\xff\xfe", b"null", b"[" * 100, b'{"a": NaN}', b"\xef\xbb\xbf{}"]
    )
    def test_no_documents(self, tmp_path: Path, content: bytes) -> None:
        """F-30: bytes that are no document are one error, with the reason."""
        path = write(tmp_path / INDEX_FILE, content)
        assert codes(check(path)) == {"unreadable-document": 1}

    def test_a_huge_document(self, tmp_path: Path) -> None:
        """F-30: what is too large is not read to its end."""
        path = tmp_path / INDEX_FILE
        with path.open("wb") as file:
            file.truncate(1 << 33)
        assert "bytes, more than the limit" in only(check(path), "unreadable-document").message

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        """Missing files, other files and empty folders are named; the rest is checked."""
        build_wheel(tmp_path, "other", "1", requires=['a; "x" in variant_namespaces'])
        (tmp_path / "empty").mkdir()
        notes = write(tmp_path / "notes.txt", b"")
        wheel = tmp_path / "other-1-py3-none-any.whl"
        report = check(tmp_path / "gone.whl", notes, tmp_path / "empty", wheel)
        assert codes(report) == {"variant-marker-in-plain-wheel": 1}
        assert [(Path(one.where).name, one.code) for one in report.unchecked] == [
            ("empty", "file-problem"),
            ("gone.whl", "file-problem"),
            ("notes.txt", "file-problem"),
        ]
        assert all(one.hint or "cannot be read" in one.message for one in report.unchecked)

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
    def test_no_permission(self, tmp_path: Path) -> None:
        """Files and folders that may not be read are named, and the release stays whole."""
        sound_release(tmp_path)
        wheel, closed = tmp_path / "fast-1.0-py3-none-any-mkl.whl", tmp_path / "closed"
        closed.mkdir()
        for path in (wheel, closed):
            path.chmod(0)
        report = check(tmp_path)
        for path in (wheel, closed):
            path.chmod(stat.S_IRWXU)
        assert not report.findings
        assert {one.where for one in report.unchecked} == {str(wheel), str(closed)}

    @pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
    def test_no_ordinary_files(self, tmp_path: Path) -> None:
        """A link that leads nowhere and a pipe that never ends are named, and nothing waits."""
        sound_release(tmp_path)
        link, pipe = tmp_path / "a-1-py3-none-any.whl", tmp_path / "b-1-py3-none-any.whl"
        link.symlink_to(tmp_path / "gone")
        os.mkfifo(pipe)
        report = check(tmp_path, full=True)
        assert not report.findings
        assert [one.where for one in report.unchecked] == [str(link), str(pipe)]

    def test_a_folder_that_ends_like_a_wheel(self, tmp_path: Path) -> None:
        """A folder is a folder whatever it is called."""
        folder = tmp_path / "fast-1.0-py3-none-any.whl"
        folder.mkdir()
        (unchecked,) = check(folder).unchecked
        assert unchecked.message == "the folder has no files to check"


class TestWheels:
    """How much of a wheel is read."""

    def test_contents(self, tmp_path: Path) -> None:
        """B-34, B-38: same size and other bytes are found with ``full`` only."""
        path = build_wheel(tmp_path, "some", "1.0", files={"some/a.py": b"abc"})
        rewritten(path, {"a.py": b"xyz"})
        assert not check(path).findings
        finding = only(check(path, full=True), "damaged-content")
        assert "some/a.py" in finding.message
        rewritten(path, {"a.py": b"longer"})
        assert codes(check(path)) == {"damaged-content": 1}

    def test_size_does_not_matter(self, tmp_path: Path) -> None:
        """Without ``full`` the content of a wheel of many gigabytes is not read."""
        path = build_large_wheel(tmp_path, "some", "1.0", 20_000_000)
        with path.open("r+b") as file:  # any reading of the content would find it
            file.seek(5_000_000)
            file.write(b"x")
        assert not check(path).findings
        assert codes(check(path, full=True)) == {"damaged-content": 1}

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"RECORD": None}, "unsound-archive"),
            ({"RECORD": b'"'}, "bad-record"),
            ({"RECORD": b"\xff"}, "bad-record"),
            ({"RECORD": b"../../victim,,\n"}, "record-leads-out"),
            ({"RECORD": b"fast/../../victim,,\n"}, "record-leads-out"),
            ({"RECORD": b"/etc/passwd,,\n"}, "record-leads-out"),
            ({"RECORD": b"..\\victim,,\n"}, "record-leads-out"),
            ({"RECORD": b"C:/victim,,\n"}, "record-leads-out"),
            ({"METADATA": None}, "wrong-metadata"),
            ({"WHEEL": None}, "unsound-archive"),
            ({"WHEEL": b"Wheel-Version: 9.0\n"}, "unsound-archive"),
            ({"variant.json": None}, "missing-document"),
            ({"variant.json": b"{"}, "unreadable-document"),
        ],
    )
    def test_several_things_at_once(
        self, tmp_path: Path, changes: dict[str, bytes | None], code: str
    ) -> None:
        """F-131, B-35, B-36: one fault does not hide the next one in the same wheel."""
        path = build_wheel(
            tmp_path, "fast", "1.0", label="mkl", document=DOCUMENT, files={"a.pth": ""}
        )
        rewritten(path, changes)
        found = codes(check(path, full=True))
        assert found[code] == 1
        assert found["startup-code"] == 1

    def test_progress(self, tmp_path: Path) -> None:
        """Whoever draws a bar is told of all bytes."""
        sound_release(tmp_path)
        told: list[int | None] = []

        class Bar(Progress):
            def start(self, total: int | None) -> None:
                told.append(total)

            def set_full_size(self, size: int) -> None:
                raise AssertionError(size)

            def unpacking(self, total: int) -> Bar:
                raise AssertionError(total)

            def advance(self, count: int) -> None:
                told.append(-count)

            def done(self) -> None:
                assert sum(one or 0 for one in told) == 0

        check_paths([tmp_path], progress=Bar())
        assert len(told) == 5


class TestReport:
    """What comes out."""

    def test_in_order(self, tmp_path: Path) -> None:
        """Equal files give equal findings, sorted, whatever the order of the targets."""
        for name in "bca":
            build_wheel(tmp_path / name, name, "1", requires=['x; "y" in variant_namespaces'])
        paths = [tmp_path / name for name in "bca"]
        report = check(*paths)
        assert report == check(*reversed(paths))
        assert [finding.where for finding in report.findings] == sorted(
            finding.where for finding in report.findings
        )

    def test_leaving_out(self, tmp_path: Path) -> None:
        """Findings of a check can be left out; all others stay."""
        build_wheel(tmp_path, "fast", "1.0", label="mkl", document=DOCUMENT)
        report = check(tmp_path).without(["no-index-file"])
        assert codes(report) == {"no-plain-wheel": 1}
        assert [finding.severity for finding in report.findings] == ["warning"]
        assert report.without(["no-plain-wheel"]).findings == ()
