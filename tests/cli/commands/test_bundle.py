"""`wheelfit bundle`: a folder that installs with no network."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.bundling import CHOSEN, HOSTS, BundleSetup, build_index, write_a_lock
from cli.running import Runner, tree

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.host_file import HostDetector
from wheelfit.core.host_file_mapping import read_host_file
from wheelfit.locking.document import Lock, read_lock, write_lock
from wheelfit.locking.plain_entries import effective_entries
from wheelfit.locking.selection import LockCandidates
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA, linux_target
from wheelfit.testing.wheels import build_release, build_wheel, release_document
from wheelfit_runtime.errors import NoFit

ALL = sorted(HOSTS)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RecordingIndex, Path]]:
    """Serve the wheels of the index on a free port."""
    folder = tmp_path_factory.mktemp("index")
    build_index(folder)
    with RecordingIndex(folder) as index:
        yield index, folder


@pytest.fixture(scope="module")
def written_lock(
    served: tuple[RecordingIndex, Path], tmp_path_factory: pytest.TempPathFactory
) -> bytes:
    """Return the bytes of a lock of the index."""
    return write_a_lock(served[0].url, tmp_path_factory.mktemp("lock") / "pylock.toml").read_bytes()


@pytest.fixture
def setup(
    served: tuple[RecordingIndex, Path], written_lock: bytes, tmp_path: Path
) -> Iterator[BundleSetup]:
    """Yield a lock of the index and the host files."""
    index, folder = served
    hosts = tmp_path / "machines"
    hosts.mkdir()
    for name, text in HOSTS.items():
        (hosts / f"{name}.toml").write_text(text)
    lock = tmp_path / "project" / "pylock.toml"
    lock.parent.mkdir()
    lock.write_bytes(written_lock)
    index.clear_requests()
    yield BundleSetup(index, folder, lock, hosts)
    faults = index.faults
    for broken in (faults.status, faults.content, faults.delay):
        broken.clear()


@pytest.fixture(scope="module")
def shared_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a bundle that the tests of this module share."""
    return tmp_path_factory.mktemp("kept") / "bundle"


@pytest.fixture
def bundle(setup: BundleSetup, run: Runner, tmp_path: Path, shared_bundle: Path) -> Path:
    """Return a copy of a bundle for all machines."""
    if not shared_bundle.exists():
        run("bundle", setup.lock, *setup.options(*ALL), "-o", shared_bundle)
    folder = tmp_path / "bundle"
    shutil.copytree(shared_bundle, folder)
    return folder


def chosen_from(folder: Path, host: str) -> dict[str, str | None]:
    """Return the labels that the lock of a bundle gives a host, without any network access."""
    path = folder / "hosts" / f"{host}.toml"
    file = read_host_file(tomllib.loads(path.read_text()), str(path))
    lock = folder / "pylock.toml"
    chooser = LockCandidates(
        read_lock(lock.read_bytes(), where=str(lock)),
        file.target(linux_target(), host),
        None,
        host_detector=HostDetector(file, host),
        folder=folder,
    )
    return {str(pin.name): pin.label for pin in chooser.select().resolution().pins}


def wheels_in(folder: Path) -> set[str]:
    """Return the wheels of a bundle."""
    return {path.name for path in (folder / "wheels").glob("*.whl")}


def siblings(folder: Path) -> list[str]:
    """Return the names of the folder and of its siblings with the same name in theirs."""
    return sorted(path.name for path in folder.parent.iterdir() if folder.name in path.name)


class TestContents:
    """Files of a bundle."""

    def test_labels_by_host(self, bundle: Path) -> None:
        """F-123: every host gets its best labels from the lock of the bundle alone."""
        assert {host: chosen_from(bundle, host) for host in ALL} == CHOSEN

    def test_no_unneeded_wheels(self, bundle: Path) -> None:
        """The bundle has exactly the wheels that some host gets, each once."""
        assert {parse_wheel_filename(name).label for name in wheels_in(bundle)} == {
            None, "cu12.8", "cu11.8", "v3",
        }  # fmt: skip
        assert len(wheels_in(bundle)) == 3 + 1 + 1 + 3  # fast, gpu-lib, plain, native
        assert {path.suffix for path in (bundle / "wheels").iterdir()} == {".whl", ".metadata"}

    @pytest.mark.parametrize("name", ["fast", "native"])
    def test_bundle_is_minimal(self, name: str, bundle: Path) -> None:
        """Without any one of the wheels some host gets another wheel or fails."""
        table = tomllib.loads((bundle / "pylock.toml").read_text())
        entries = effective_entries(table)
        del table["tool"]["wheelfit"]["packages"]
        (entry,) = [entry for entry in entries if entry["name"] == name]
        for wheel in entry["wheels"]:
            less = {**entry, "wheels": [one for one in entry["wheels"] if one is not wheel]}
            packages = [less if entry["name"] == name else entry for entry in entries]
            assert any(differs(bundle, {**table, "packages": packages}, host) for host in ALL)

    def test_paths_in_the_lock(self, bundle: Path) -> None:
        """Every wheel of the lock is a path in the folder, with hash and size."""
        table = tomllib.loads((bundle / "pylock.toml").read_text())
        wheels = [wheel for entry in effective_entries(table) for wheel in entry["wheels"]]
        assert {wheel["path"] for wheel in wheels} == {
            f"wheels/{name}" for name in wheels_in(bundle)
        }
        for wheel in wheels:
            assert "url" not in wheel
            assert wheel["size"] == (bundle / wheel["path"]).stat().st_size
            assert list(wheel["hashes"]) == ["sha256"]
        fast = next(entry for entry in effective_entries(table) if entry["name"] == "fast")
        assert set(fast["variants-json"]["variants"]) == {"cu12.8", "cu11.8", "v3"}  # F-116
        needs = fast["tool"]["wheelfit"]["variant-dependencies"]
        assert needs.keys() == {"cu12.8", "cu11.8", "v3"}

    def test_variants_of_other_hosts_are_pruned(
        self, setup: BundleSetup, run: Runner, tmp_path: Path
    ) -> None:
        """F-116: variants for other machines are neither in the lock nor in the index."""
        folder = tmp_path / "bundle"
        run("bundle", setup.lock, *setup.options("win"), "-o", folder)
        document = json.loads((folder / "simple/fast/fast-2.0-variants.json").read_text())
        assert document["variants"] == {"v3": {"x86_64": {"level": ["v3"]}}}
        assert list(document["providers"]) == ["x86_64"]
        assert "gpu-lib" not in (folder / "pylock.toml").read_text()
        assert not (folder / "simple" / "gpu-lib").exists()

    def test_reproducible_bundle(
        self, bundle: Path, setup: BundleSetup, run: Runner, tmp_path: Path
    ) -> None:
        """Equal inputs give equal trees, whatever the name of the folder."""
        again = tmp_path / "again"
        run("bundle", setup.lock, *setup.options(*ALL), "-o", again, "--no-cache-dir")
        assert tree(again) == tree(bundle)

    def test_manifest(self, bundle: Path) -> None:
        """The manifest lists every other file, and the wheels of each host."""
        manifest = json.loads((bundle / "bundle.json").read_text())
        files = {name: digest for name, digest in tree(bundle).items() if digest != "folder"}
        del files["bundle.json"]
        assert {name: one["sha256"] for name, one in manifest["files"].items()} == files
        by_host = {
            host["name"]: {parse_wheel_filename(name).label for name in host["wheels"]}
            for host in manifest["hosts"]
        }
        assert by_host == {host: set(CHOSEN[host].values()) for host in ALL}

    def test_permissions(self, bundle: Path, tmp_path: Path) -> None:
        """Files and folders have the permissions of newly created ones."""
        (tmp_path / "file").touch()
        (tmp_path / "folder").mkdir()
        wanted = {False: (tmp_path / "file").stat().st_mode, True: 0}
        wanted[True] = (tmp_path / "folder").stat().st_mode
        for path in (bundle, *bundle.rglob("*")):
            assert path.stat().st_mode == wanted[path.is_dir()]

    def test_wheels_are_not_linked_to_the_cache(
        self, setup: BundleSetup, run: Runner, tmp_path: Path
    ) -> None:
        """No wheel is a hard link into the cache."""
        bundle = tmp_path / "bundle"
        run("bundle", setup.lock, *setup.options("new"), "-o", bundle)
        assert {path.stat().st_nlink for path in (bundle / "wheels").iterdir()} == {1}

    def test_cached_wheels(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """Wheels from the cache are not called downloaded."""
        options = [*setup.options("new"), "--cache-dir", str(tmp_path / "cache")]
        first = run("bundle", setup.lock, *options, "-o", tmp_path / "first").err
        assert "  downloaded " in first
        again = run("bundle", setup.lock, *options, "-o", tmp_path / "second").err
        assert "  copied " in again
        assert "downloaded" not in again

    def test_preset_as_host_file(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """A preset is written as a host file with interpreter and platform."""
        folder = tmp_path / "bundle"
        preset = "cuda-12.8-sm90+linux-x86_64"
        run("bundle", setup.lock, "--for", preset, "-o", folder)
        (path,) = (folder / "hosts").iterdir()
        assert path.name == f"{preset}.toml"
        file = read_host_file(tomllib.loads(path.read_text()), str(path))
        assert file.interpreter is not None
        assert file.platforms
        assert "platform_release" not in file.environment
        assert chosen_from(folder, preset)["fast"] == "cu12.8"

    def test_default_is_this_machine(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """Without --for the bundle is for this machine, whose detection becomes a host file."""
        folder = tmp_path / "bundle"
        result = run("bundle", setup.lock, "-o", folder, "--json")
        (host,) = result.object["hosts"]
        assert (host["name"], host["host"]) == ("this-machine", None)
        file = tomllib.loads((folder / "hosts/this-machine.toml").read_text())
        assert file["interpreter"]["version"].split(".")[:2] == list(map(str, sys.version_info[:2]))
        run("bundle", "--verify", folder)

    def test_allow_incomplete_host_file(
        self, setup: BundleSetup, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With --allow-incomplete the detected values are added to the host file of the bundle."""
        bare = setup.hosts / "bare.toml"
        bare.write_text(HOSTS["new"].partition("[[provider]]")[0])
        monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "12.8")
        words: list[str | Path] = ["bundle", setup.lock, "--for", bare, "-o"]
        run(*words, tmp_path / "incomplete")
        assert chosen_from(tmp_path / "incomplete", "bare")["fast"] == "null"
        run(*words, tmp_path / "complete", "--allow-incomplete")
        monkeypatch.delenv("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION")
        assert chosen_from(tmp_path / "complete", "bare")["fast"] == "cu12.8"
        file = tomllib.loads((tmp_path / "complete/hosts/bare.toml").read_text())
        assert "nvidia" in {one["namespace"] for one in file["provider"]}
        assert file["metadata"]["overrides"] == [
            "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION=12.8"
        ]

    def test_version_that_needs_quoting(self, run: Runner, tmp_path: Path) -> None:
        """A version with characters that need quoting can be bundled and installed."""
        index, version = tmp_path / "odd index", "1!2.0+a.1"
        build_wheel(index, "odd", version, requires_python=">=3.9,<4")
        with RecordingIndex(index) as served:
            names, roots = [("odd", version)], ["odd"]
            lock = write_a_lock(served.url, tmp_path / "pylock.toml", names=names, roots=roots)
            folder = tmp_path / "a folder #1%41"
            run("bundle", lock, "-o", folder)
        page = (folder / "simple/odd/index.html").read_text()
        assert 'href="../../wheels/odd-1%212.0%2Ba.1-py3-none-any.whl#sha256=' in page
        assert 'data-requires-python="&gt;=3.9,&lt;4"' in page
        assert 'data-core-metadata="sha256=' in page
        run("bundle", "--verify", folder)
        target = tmp_path / "there"
        run(
            "install", "--index-url", folder / "simple", "--target", target, "odd", "--no-cache-dir"
        )
        assert (target / "odd/__init__.py").exists()

    def test_host_file_names(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """Names of host files are sanitised and made unique."""
        odd, other = tmp_path / "a b;$(x).toml", tmp_path / "else"
        other.mkdir()
        odd.write_text(HOSTS["new"])
        (other / "New.toml").write_text(HOSTS["old"])
        (other / "Con.x.toml").write_text(HOSTS["old"])
        folder = tmp_path / "bundle"
        new = setup.hosts / "new.toml"
        run("bundle", setup.lock, "--for", odd, "--for", new, "--for", other / "New.toml",
            "--for", other / "Con.x.toml", "-o", folder)  # fmt: skip
        assert sorted(path.name for path in (folder / "hosts").iterdir()) == [
            "New-2.toml", "a-b-x.toml", "host-Con.x.toml", "new.toml",
        ]  # fmt: skip

    def test_lock_refuses_other_machines(self, bundle: Path) -> None:
        """The lock of a bundle is limited to the platforms and Pythons of its hosts."""
        path = bundle / "pylock.toml"
        lock = read_lock(path.read_bytes(), where=str(path))
        assert len(lock.environments) == 3
        with pytest.raises(NoFit, match="not made for other"):
            LockCandidates(lock, linux_target("3.11.2", name="other"), None)


def differs(folder: Path, table: dict[str, Any], host: str) -> bool:
    """Return whether a changed lock gives a host other wheels than the lock of the bundle."""
    changed = folder.parent / "changed"
    shutil.rmtree(changed, ignore_errors=True)
    shutil.copytree(folder, changed)
    (changed / "pylock.toml").write_bytes(write_lock(Lock.of(table)))
    try:
        return chosen_from(changed, host) != chosen_from(folder, host)
    except NoFit:
        return True


class TestOffline:
    """Use of a bundle without a network."""

    @pytest.fixture
    def no_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make every attempt to connect fail the test."""

        def refuse(*_: object) -> None:
            raise AssertionError("a connection was opened")

        monkeypatch.setattr(socket.socket, "connect", refuse)

    @pytest.mark.usefixtures("bundle", "no_network")
    @pytest.mark.parametrize("host", ALL)
    def test_install_from_the_index(
        self, host: str, bundle: Path, run: Runner, tmp_path: Path
    ) -> None:
        """`install` from the index of the bundle gives each host its build."""
        target = tmp_path / "there"
        report = run(
            "install", "--index-url", bundle / "simple", "--for",
            bundle / "hosts" / f"{host}.toml", "--target", target, "--json", "--no-cache-dir",
            "fast",
        ).object  # fmt: skip
        assert {one["name"]: one["label"] for one in report["install"]} == CHOSEN[host]
        assert (
            f"__variant__ = {CHOSEN[host]['fast']!r}" in (target / "fast/__init__.py").read_text()
        )

    @pytest.mark.usefixtures("bundle", "no_network")
    def test_verify_a_copy(self, bundle: Path, run: Runner, tmp_path: Path) -> None:
        """``--verify`` works on a copy, without the original."""
        copied = tmp_path / "stick" / "copy"
        shutil.copytree(bundle, copied)
        shutil.rmtree(bundle)
        assert "is valid: 8 wheels" in run("bundle", "--verify", copied).out
        assert run("bundle", "--verify", copied, "--json").object["size"] > 0


class TestVerify:
    """Problems that ``--verify`` reports."""

    def problems(self, run: Runner, folder: Path) -> set[tuple[str, str]]:
        """Return the paths and problems of a bundle."""
        error = run("bundle", "--verify", folder, "--json", code=4).error
        assert error["code"] == "damaged-bundle"
        return {(problem["path"], problem["problem"]) for problem in error["problems"]}

    def test_missing_changed_and_extra_files(self, bundle: Path, run: Runner) -> None:
        """All problems with files are reported at once."""
        gone, *_, changed = sorted((bundle / "wheels").glob("*.whl"))
        gone.unlink()
        data = bytearray(changed.read_bytes())
        data[len(data) // 2] ^= 1
        changed.write_bytes(data)
        (bundle / "README.txt").write_text("short")
        (bundle / "wheels" / "evil.whl").touch()
        (bundle / "hosts" / "new.toml").unlink()
        (bundle / "hosts" / "new.toml").symlink_to("old.toml")
        assert self.problems(run, bundle) == {
            (f"wheels/{gone.name}", "missing"),
            (f"wheels/{changed.name}", "changed"),
            ("README.txt", "changed"),
            ("wheels/evil.whl", "extra"),
            ("hosts/new.toml", "changed"),
        }
        assert f"wheels/{gone.name}: missing" in run("bundle", "--verify", bundle, code=4).err

    def test_special_files_are_not_opened(self, bundle: Path, run: Runner) -> None:
        """Pipes are not opened and links to folders are not followed."""
        manifest = bundle / "bundle.json"
        table = json.loads(manifest.read_text())
        nothing = {"sha256": hashlib.sha256().hexdigest(), "size": 0}
        table["files"] |= {"pipe": nothing, "dev/zero": nothing}
        manifest.write_text(json.dumps(table))
        os.mkfifo(bundle / "pipe")
        (bundle / "dev").symlink_to("/dev")
        assert self.problems(run, bundle) == {
            ("pipe", "changed"), ("dev/zero", "missing"), ("dev", "extra"),
        }  # fmt: skip
        manifest.unlink()
        os.mkfifo(manifest)
        assert self.problems(run, bundle) == {("bundle.json", "unreadable")}

    def test_output_folder(self, bundle: Path, run: Runner) -> None:
        """``--verify`` writes no folder, so that -o is refused with the right form."""
        error = run("bundle", "--verify", bundle, "-o", "x", "--json", code=2).error
        assert error["hint"] == "name the bundle alone: `wheelfit bundle --verify DIR`"

    def test_missing_lock(self, bundle: Path, run: Runner) -> None:
        """A lock that is not in the manifest either is missing; an invalid one is unreadable."""
        rewrite(bundle, "pylock.toml", "lock-version = '9'\n")
        assert self.problems(run, bundle) == {("pylock.toml", "unreadable")}
        manifest = bundle / "bundle.json"
        table = json.loads(manifest.read_text())
        del table["files"]["pylock.toml"]
        manifest.write_text(json.dumps(table))
        (bundle / "pylock.toml").unlink()
        assert self.problems(run, bundle) == {("pylock.toml", "missing")}

    def test_changed_lock_with_matching_manifest(self, bundle: Path, run: Runner) -> None:
        """A changed lock with a matching manifest is detected by the selections of the hosts."""
        lock = bundle / "pylock.toml"
        rewrite(bundle, "pylock.toml", lock.read_text().replace('"12.8"', '"13.8"'))
        assert self.problems(run, bundle) == {
            ("hosts/new.toml", "selection"), ("hosts/arm.toml", "selection"),
        }  # fmt: skip

    def test_changed_page_with_matching_manifest(self, bundle: Path, run: Runner) -> None:
        """A changed index page with a matching manifest is detected by its links."""
        text = (bundle / "simple/plain/index.html").read_text()
        for start in ("../../../", "https://files.example/", "file://files.example/"):
            rewrite(bundle, "simple/plain/index.html", text.replace("../../", start))
            assert self.problems(run, bundle) == {("simple/plain/index.html", "changed")}
        rewrite(bundle, "simple/plain/index.html", text)
        (bundle / "simple/other").mkdir()
        rewrite(bundle, "simple/other/index.html", text)
        assert self.problems(run, bundle) == {("simple/other/index.html", "changed")}

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2},
            {"files": {"../outside": {"sha256": "0" * 64, "size": 1}}},
            {"files": {"/etc/passwd": {"sha256": "0" * 64, "size": 1}}},
            {"files": {"C:x": {"sha256": "0" * 64, "size": 1}}},
            {"files": {"x": {"sha256": "0", "size": 1}}},
            {"files": {"x": {"sha256": "0" * 64, "size": -1}}},
            {"files": []},
            {"hosts": []},
            {"hosts": [{"name": "../x", "wheels": []}]},
            {"hosts": [{"name": "new", "wheels": ["not-there.whl"]}]},
            {"options": [1]},
            {"options": ["--no-such-option"]},
            {"options": ["--help"]},
            {"lock": None},
        ],
    )
    def test_invalid_manifest(self, change: dict[str, object], bundle: Path, run: Runner) -> None:
        """An invalid manifest is unreadable."""
        path = bundle / "bundle.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        assert self.problems(run, bundle) == {("bundle.json", "unreadable")}

    def test_no_manifest(self, bundle: Path, run: Runner, tmp_path: Path) -> None:
        """A missing manifest, one that is not JSON, and a missing folder."""
        (bundle / "bundle.json").write_text("{")
        assert self.problems(run, bundle) == {("bundle.json", "unreadable")}
        (bundle / "bundle.json").unlink()
        assert self.problems(run, bundle) == {("bundle.json", "missing")}
        assert run("bundle", "--verify", tmp_path / "none", "--json", code=1).error["code"] == (
            "file-problem"
        )

    def test_selection_options_are_recorded(
        self, setup: BundleSetup, run: Runner, tmp_path: Path
    ) -> None:
        """The options of the selection are in the manifest and in the README."""
        folder = tmp_path / "bundle"
        run("bundle", setup.lock, *setup.options("new", "old"), "--label", "fast=cu11.8",
            "-o", folder)  # fmt: skip
        assert "--label fast=cu11.8" in (folder / "README.txt").read_text()
        manifest = json.loads((folder / "bundle.json").read_text())
        assert manifest["options"] == ["--label", "fast=cu11.8"]
        run("bundle", "--verify", folder)


def command_line(*words: str | Path) -> list[str]:
    """Return the command line of a separate process."""
    return [sys.executable, "-m", "wheelfit", *map(str, words)]


def rewrite(bundle: Path, name: str, text: str) -> None:
    """Replace a file of a bundle and its entry in the manifest."""
    (bundle / name).write_text(text)
    path = bundle / "bundle.json"
    manifest = json.loads(path.read_text())
    digest = hashlib.sha256(text.encode()).hexdigest()
    manifest["files"][name] = {"sha256": digest, "size": len(text.encode())}
    path.write_text(json.dumps(manifest))


class TestPlace:
    """The folder that a bundle is written to."""

    def test_existing_folder_is_not_replaced(
        self, bundle: Path, setup: BundleSetup, run: Runner, tmp_path: Path
    ) -> None:
        """A folder with any content is not replaced, an earlier bundle neither."""
        before = tree(tmp_path)
        (tmp_path / "link").symlink_to(bundle)
        for place in (bundle, setup.hosts, setup.lock, tmp_path / "link"):
            result = run("bundle", setup.lock, *setup.options("new"), "-o", place, code=1)
            assert "exists and is not empty" in result.err
        (tmp_path / "link").unlink()
        assert tree(tmp_path) == before

    def test_parent_does_not_exist(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """A bundle makes no folder but its own."""
        place = tmp_path / "a" / "b"
        result = run("bundle", setup.lock, *setup.options("new"), "-o", place, code=1)
        assert "the folder to write the bundle into does not exist" in result.err
        assert f"where: {place.parent}\n  hint: create it" in result.err

    @pytest.mark.skipif(sys.platform == "win32", reason="needs links")
    @pytest.mark.parametrize("name", ["wheels", "simple", "simple/fast", "hosts"])
    def test_linked_folders_of_a_bundle(
        self, bundle: Path, run: Runner, tmp_path: Path, name: str
    ) -> None:
        """A bundle with a linked folder is not valid."""
        elsewhere = tmp_path / "elsewhere"
        (bundle / name).rename(elsewhere)
        (bundle / name).symlink_to(elsewhere)
        run("bundle", "--verify", bundle, code=4)

    def test_empty_folder(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """An empty folder can become a bundle."""
        folder = tmp_path / "empty"
        folder.mkdir()
        run("bundle", setup.lock, *setup.options("win"), "-o", folder)
        run("bundle", "--verify", folder)


class TestFailures:
    """Failures, after which the folder is complete or unchanged."""

    def test_unsupported_host(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """A host without a wheel is an error before any download."""
        mac = setup.hosts / "mac.toml"
        mac.write_text(HOSTS["win"].replace("win_amd64", "macosx_14_0_arm64"))
        setup.index.clear_requests()
        result = run(
            "bundle", setup.lock, *setup.options("new", "mac"), "-o", tmp_path / "out", code=3
        )
        assert f"{mac} cannot be served" in result.err
        assert not setup.index.requests
        assert siblings(tmp_path / "out") == []

    def test_failing_download(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """A failing download or a wrong hash leaves no partial bundle."""
        words: list[str | Path] = ["bundle", setup.lock, *setup.options(*ALL)]
        words += ["-o", tmp_path / "out", "--no-cache-dir", "--retries", "0"]
        before = tree(tmp_path)
        cuda = "fast-2.0-py3-none-any-cu11.8.whl"
        setup.index.faults.status[cuda] = 503
        assert "[unexpected-status]" in run(*words, code=5).err
        assert tree(tmp_path) == before
        setup.index.faults.status.clear()
        setup.index.faults.content[cuda] = (setup.folder / cuda).read_bytes()[:-1] + b"x"
        assert "[hash-mismatch]" in run(*words, code=4).err
        assert tree(tmp_path) == before
        setup.index.faults.content.clear()
        run(*words)

    @pytest.mark.integration
    def test_write_error(self, setup: BundleSetup, tmp_path: Path) -> None:
        """A write error names the folder and leaves no file."""
        completed = subprocess.run(
            command_line("bundle", setup.lock, *setup.options("new"), "-o", tmp_path / "out"),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)),
            # Python would cut off what it compiles, and all later tests would read that.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 1
        assert "[file-problem]" in completed.stderr
        assert "too large" in completed.stderr  # what the system says of such a file
        assert siblings(tmp_path / "out") == []

    @pytest.mark.integration
    def test_interrupt(self, setup: BundleSetup, tmp_path: Path) -> None:
        """Ctrl-C leaves no file."""
        name = "fast-2.0-py3-none-any-cu12.8.whl"
        setup.index.faults.delay[name] = 2
        with subprocess.Popen(
            command_line("bundle", setup.lock, *setup.options("new"), "-o", tmp_path / "out",
                    "--no-cache-dir"),
            stderr=subprocess.PIPE, text=True,
        ) as running:  # fmt: skip
            while not setup.index.requests_for(name):
                assert running.poll() is None
                time.sleep(0.01)
            assert len(siblings(tmp_path / "out")) == 1  # hidden, under another name
            assert not (tmp_path / "out").exists()
            running.send_signal(signal.SIGINT)
            setup.index.faults.delay.clear()
            assert running.wait(60) == 130
        assert siblings(tmp_path / "out") == []

    def test_usage_errors(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """Conflicting options are a usage error."""
        run("bundle", setup.lock, code=2)
        run("bundle", "--verify", tmp_path, "-o", tmp_path / "out", code=2)
        long = tmp_path / ("x" * 300) / "bundle"
        for words in (("--verify", long), (setup.lock, "-o", long)):
            assert run("bundle", *words, "--json", code=1).error["code"] == "file-problem"
        run("bundle", setup.lock, "--verify", tmp_path, code=2)


class TestWheelsThatDifferFromTheLock:
    """F-93: the next best wheel is used, for every machine."""

    @pytest.fixture
    def mismatched(self, tmp_path: Path, setup: BundleSetup) -> Iterator[BundleSetup]:
        """Yield an index whose best wheel has other properties than the lock lists."""
        folder = tmp_path / "lying"
        build_index(folder)
        name = "fast-2.0-py3-none-any-cu12.8.whl"
        other = {"cu12.8": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}}}
        document = json.loads((folder / "fast-2.0-variants.json").read_text())
        build_wheel(folder, "fast", "2.0", label="cu12.8", document={**document, "variants": other})
        assert (folder / name).exists()
        with RecordingIndex(folder) as index:
            lock = write_a_lock(index.url, tmp_path / "lying project" / "pylock.toml")
            yield BundleSetup(index, folder, lock, setup.hosts)

    def test_next_best_wheel(self, mismatched: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """The mismatched wheel is left out, and its hosts get the next best one."""
        folder = tmp_path / "bundle"
        result = run("bundle", mismatched.lock, *mismatched.options(*ALL), "-o", folder)
        assert "cu12.8.whl is not used: the properties of cu12.8 differ" in result.err
        assert {host: chosen_from(folder, host)["fast"] for host in ALL} == {
            "new": "cu11.8", "old": "cu11.8", "arm": "cu11.8", "win": "v3",
        }  # fmt: skip
        assert not any("cu12.8" in name for name in wheels_in(folder))


class TestReport:
    """Output of the command."""

    def test_json_report(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """Packages, labels and bytes by host and in total, and the bytes saved by sharing."""
        folder = tmp_path / "bundle"
        report = run(
            "bundle", setup.lock, *setup.options("new", "arm"), "-o", folder, "--json"
        ).object
        by_host = {host["name"]: host for host in report["hosts"]}
        labels = {package["name"]: package["label"] for package in by_host["new"]["packages"]}
        assert labels == CHOSEN["new"]
        assert report["size"] == sum(wheel["size"] for wheel in report["wheels"])
        assert (
            report["shared"] == sum(host["size"] for host in report["hosts"]) - report["size"] > 0
        )
        assert {wheel["filename"] for wheel in report["wheels"]} == wheels_in(folder)
        run("bundle", "--verify", folder, "--json")

    def test_dry_run(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """``--dry-run`` reports the same sizes, and neither fetches nor writes."""
        setup.index.clear_requests()
        words: list[str | Path] = [
            "bundle",
            setup.lock,
            *setup.options(*ALL),
            "-o",
            tmp_path / "out",
        ]
        dry = run(*words, "--dry-run", "--json").object
        assert not setup.index.requests
        assert siblings(tmp_path / "out") == []
        wet = run(*words, "--json").object
        assert dry["size"] == wet["size"]
        assert dry["hosts"] == wet["hosts"]

    def test_max_download(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """The limit of --max-download applies before any download."""
        setup.index.clear_requests()
        folder = tmp_path / "out"
        words: list[str | Path] = ["bundle", setup.lock, "-o", folder, "--no-cache-dir"]
        words += setup.options("new", "win")
        result = run(*words, "--max-download", "1kB", code=7)
        assert "would be downloaded, and 1.0 kB are allowed" in result.err
        result = run(*words, "--require-accelerator", code=3)
        assert "win.toml cannot be served" in result.err
        assert siblings(folder) == []
        assert not setup.index.requests
        run(*words, "--max-download", "1MB")

    def test_text_output(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """The text has a line for each host, each variant and the total."""
        stdout = run("bundle", setup.lock, *setup.options("new", "win"), "-o", tmp_path / "out").out
        assert "new: 4 packages" in stdout
        assert "  fast 2.0 (cu12.8)" in stdout
        assert "win: 3 packages" in stdout
        assert "a folder for each machine would take" in stdout

    def test_own_shorthand_is_expanded(
        self,
        setup: BundleSetup,
        run: Runner,
        tmp_path: Path,
        user_settings: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A shorthand of the user's settings is expanded in the manifest."""
        user_settings.write_text(
            '[shorthand.old]\nforbid = ["nvidia :: cuda_version_lower_bound :: 12.8"]\n'
        )
        folder = tmp_path / "bundle"
        run("bundle", setup.lock, *setup.options("new"), "--variant", "old", "-o", folder)
        assert any("cu11.8" in name for name in wheels_in(folder))
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", os.devnull)
        run("bundle", "--verify", folder)
        folder = tmp_path / "another"
        run("bundle", setup.lock, *setup.options("new"), "--variant", "cuda11", "-o", folder)
        manifest = json.loads((folder / "bundle.json").read_text())
        assert manifest["options"] == ["--variant", "cuda11"]
        run("bundle", "--verify", folder)

    def test_extras_and_groups(self, setup: BundleSetup, run: Runner, tmp_path: Path) -> None:
        """A bundle supports only the extras and groups it was made with."""
        lock = write_a_lock(
            setup.index.url,
            tmp_path / "more" / "pylock.toml",
            roots=["plain", "gpu-lib ; 'gpu' in extras", "native ; 'dev' in dependency_groups"],
            extras=["gpu", "other"],
            dependency_groups=["dev", "docs"],
            default_groups=["docs"],
        )
        words: list[str | Path] = ["bundle", lock, *setup.options("new")]
        run(*words, "-o", tmp_path / "bare")
        table = tomllib.loads((tmp_path / "bare" / "pylock.toml").read_text())
        assert [package["name"] for package in table["packages"]] == ["plain"]
        assert "extras" not in table
        assert table["default-groups"] == table["dependency-groups"] == ["docs"]
        run(*words, "--extra", "GPU", "--group", "dev", "-o", tmp_path / "more-of-it")
        table = tomllib.loads((tmp_path / "more-of-it" / "pylock.toml").read_text())
        assert [package["name"] for package in table["packages"]] == ["gpu-lib", "native", "plain"]
        assert (table["extras"], table["default-groups"]) == (["gpu"], ["dev"])
        assert "--extra gpu" in (tmp_path / "more-of-it" / "README.txt").read_text()
        assert "other" in run(*words, "--extra", "none", "-o", tmp_path / "x", code=1).err


class TestLocksOfOtherTools:
    """Locks of other tools."""

    def test_two_files_with_the_same_name(
        self, setup: BundleSetup, run: Runner, tmp_path: Path
    ) -> None:
        """Different files with the same name cannot be in one bundle."""
        table = tomllib.loads(setup.lock.read_text())
        plain = next(package for package in table["packages"] if package["name"] == "plain")
        plain["marker"] = "sys_platform == 'linux'"
        (wheel,) = plain["wheels"]
        other = {**plain, "marker": "sys_platform == 'win32'"}
        other["wheels"] = [{**wheel, "hashes": {"sha256": "0" * 64}}]
        table["packages"].append(other)
        path = tmp_path / "pylock.toml"
        path.write_bytes(write_lock(Lock.of(table)))
        result = run("bundle", path, *setup.options("new", "win"), "-o", tmp_path / "out", code=1)
        assert "two different files are called plain-1-py3-none-any.whl" in result.err
        run("bundle", path, *setup.options("new"), "-o", tmp_path / "out")

    def test_local_wheels_without_a_variants_table(
        self, setup: BundleSetup, run: Runner, tmp_path: Path
    ) -> None:
        """F-122: the documents of local wheels supply the variants of lock and index."""
        names = [path.name for path in sorted(setup.folder.glob("fast-*.whl"))]
        digests = {
            name: hashlib.sha256((setup.folder / name).read_bytes()).hexdigest() for name in names
        }
        wheels = [
            {"path": f"{setup.folder}/{name}", "hashes": {"sha256": digests[name]}}
            for name in names
        ]
        table = {
            "lock-version": "1.0",
            "created-by": "a test",
            "packages": [{"name": "fast", "version": "2.0", "wheels": wheels}],
        }
        path = tmp_path / "pylock.toml"
        path.write_bytes(write_lock(Lock.of(table)))
        folder = tmp_path / "out"
        run("bundle", path, *setup.options("new", "win"), "-o", folder)
        assert chosen_from(folder, "new") == {"fast": "cu12.8"}
        assert chosen_from(folder, "win") == {"fast": "v3"}
        document = json.loads((folder / "simple/fast/fast-2.0-variants.json").read_text())
        assert set(document["variants"]) == {"cu12.8", "v3"}
        run("bundle", "--verify", folder)

    @pytest.mark.parametrize(
        ("source", "kind"),
        [
            (
                {"vcs": {"type": "git", "url": "https://fake.invalid/s", "commit-id": "0" * 40}},
                "repository",
            ),
            (
                {
                    "sdist": {
                        "url": "https://fake.invalid/s-1.tar.gz",
                        "hashes": {"sha256": "0" * 64},
                    }
                },
                "source distribution",
            ),
        ],
    )
    def test_locked_sources(
        self, source: dict[str, Any], kind: str, setup: BundleSetup, run: Runner, tmp_path: Path
    ) -> None:
        """What would have to be built is an error: its build may need a network."""
        table = tomllib.loads(setup.lock.read_text())
        table["packages"].append({"name": "s", "version": "1", **source})
        table["tool"]["wheelfit"]["roots"].append("s")
        path = tmp_path / "pylock.toml"
        path.write_bytes(write_lock(Lock.of(table)))
        result = run("bundle", path, *setup.options("new"), "-o", tmp_path / "out", code=3)
        assert f"only a {kind} is locked" in result.err
        assert "build a wheel and lock it" in result.err
        assert siblings(tmp_path / "out") == []


def test_packages_agree_on_the_cuda_major(run: Runner, tmp_path: Path) -> None:
    """Where the best builds differ in the CUDA major version, builds that agree are bundled."""
    index = tmp_path / "index"
    for name, majors in (("alpha", ("13.0", "12.8")), ("beta", ("12.8",))):
        labels = {f"cu{version[:2]}": version for version in majors}
        document = release_document(
            {
                label: {"nvidia": {"cuda_version_lower_bound": [version]}}
                for label, version in labels.items()
            },
            providers={"nvidia": NVIDIA},
        )
        build_release(index, name, "1", document, labels)
    host = tmp_path / "new.toml"
    host.write_text(HOSTS["new"].replace('"12.9", ', '"13.0", "12.9", '))
    folder = tmp_path / "bundle"
    with RecordingIndex(index) as served:
        names, roots = [("alpha", "1"), ("beta", "1")], ["alpha", "beta"]
        lock = write_a_lock(served.url, tmp_path / "pylock.toml", names=names, roots=roots)
        run("bundle", lock, "--for", host, "-o", folder)
        assert {parse_wheel_filename(name).label for name in wheels_in(folder)} == {"cu12"}
        run("bundle", "--verify", folder)
        folder = tmp_path / "mixed"
        run("bundle", lock, "--for", host, "-o", folder, "--allow-mixed", "cuda")
    assert {parse_wheel_filename(name).label for name in wheels_in(folder)} == {"cu12", "cu13"}
    assert "--allow-mixed cuda" in (folder / "README.txt").read_text()
    run("bundle", "--verify", folder)
