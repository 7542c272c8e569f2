"""``wheelfit export``, and installation of its files by pip and uv."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.locking import write_lock_of
from cli.running import CommandResult, Runner
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from programs import run_program

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document
from wheelfit.wheels.archive import WheelArchive

X86_64 = {"requires": ["x86-64-variant-provider<1"]}
DOCUMENT = release_document(
    {"v3": {"x86_64": {"level": ["v3"]}}, "null": {}}, providers={"x86_64": X86_64}
)
NEEDS: dict[str, dict[str, list[str]]] = {
    "fast": {"": ["plain"], "null": ["plain"], "v3": ["plain", "extra-speed"]},
    "plain": {"": []},
    "extra-speed": {"": []},
}
V3, V1 = "cpu-x86_64-v3", "linux-x86_64"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a project with variants whose needs differ, and what they need."""
    folder = tmp_path / "index"
    for label in ("v3", "null", None):
        build_wheel(
            folder, "fast", "1.0", label=label, document=DOCUMENT if label else None,
            requires=["plain", 'extra-speed; "x86_64" in variant_namespaces'] if label
            else ["plain"],
            metadata_extra=[("License-Expression", "mit"), ("License-File", "LICENSE")],
        )  # fmt: skip
    (folder / "fast-1.0-variants.json").write_text(json.dumps(DOCUMENT))
    build_wheel(folder, "plain", "1.0", metadata_extra=[("License", "BSD\x1b[31m")])
    build_wheel(folder, "extra-speed", "1.0")
    with RecordingIndex(folder) as server:
        yield server


@pytest.fixture
def lock(index: RecordingIndex, tmp_path: Path) -> Path:
    """Lock all releases of the index."""
    pins = ["fast==1.0", "plain==1.0", "extra-speed==1.0"]
    return write_lock_of(index, pins, tmp_path / "pylock.toml", needs=NEEDS)


def install_with(
    program: Path, words: list[str], requirements: Path, index: RecordingIndex
) -> dict[str, str]:
    """Install requirements with a tool, and return the label of each package."""
    target = requirements.parent / f"target of {program.name}"
    names = ("PATH", "SYSTEMROOT")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    settings = {"HOME": str(target.parent), "PIP_CONFIG_FILE": os.devnull}
    indexes = dict.fromkeys(("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), index.url)
    run_program(
        program, *words, "--require-hashes", "-r", requirements, "--target", target,
        env={**kept, **settings, **indexes}, cwd=requirements.parent,
    )  # fmt: skip
    found = sorted(target.glob("*/__init__.py"))
    return {path.parent.name: path.read_text().rpartition("= ")[2].strip() for path in found}


PIP = ["install", "--no-cache-dir", "--quiet"]
UV = ["pip", "install", "--no-config", "--no-cache", "--python", sys.executable]


class TestRequirements:
    """``--format requirements``."""

    def test_file_for_each_machine(self, lock: Path, run: Runner, tmp_path: Path) -> None:
        """Several machines get one file each, and never share one."""
        folder = tmp_path / "out"
        run("export", lock, "--for", V3, "--for", V1, "-o", f"{folder}/")
        files = {path.name: path.read_text() for path in folder.iterdir()}
        assert files.keys() == {f"requirements.{name}.txt" for name in (V3, V1)}
        assert f"# The packages of pylock.toml for {V3} alone" in files[f"requirements.{V3}.txt"]
        assert "extra-speed" in files[f"requirements.{V3}.txt"]
        assert "extra-speed" not in files[f"requirements.{V1}.txt"]
        result = run("export", lock, "--for", V3, "--for", V1, code=2)
        assert "several machines cannot be exported into one file" in result.err
        run("export", lock, "--for", V3, "--for", V1, "-o", tmp_path / "one.txt", code=2)
        assert not (tmp_path / "one.txt").exists()

    def test_file_names(self, lock: Path, run: Runner, tmp_path: Path) -> None:
        """Files are named after the machine, without characters that are not allowed."""
        for name in ("my node.toml", ".toml", "-.toml"):
            (tmp_path / name).write_text('[metadata]\nversion = "0.1"\n')
            result = run(
                "export", lock, "--for", tmp_path / name, "-o", f"{tmp_path}/out/", "--json"
            )
            assert result.object["targets"][0]["document"] is None
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"requirements.my-node.txt", "requirements.machine.txt"}

    def test_default_is_this_machine(self, lock: Path, run: Runner) -> None:
        """Without --for the file is for this machine, and its comment names it."""
        result = run("export", lock, "--no-variants")
        assert result.out.startswith("# The packages of pylock.toml for this machine alone")
        assert "\nfast==1.0 --hash=sha256:" in result.out

    def test_variants_are_urls(self, lock: Path, run: Runner) -> None:
        """Variants are URLs, with a warning that other tools refuse their names."""
        result = run("export", lock, "--for", V3)
        assert "fast @ http://127.0.0.1:" in result.out
        assert "fast-1.0-py3-none-any-v3.whl#sha256=" in result.out
        assert "pip and uv refuse variant wheels by their names: fast 1.0 (v3)" in result.err

    def test_local_wheels(
        self, lock: Path, run: Runner, index: RecordingIndex, tmp_path: Path
    ) -> None:
        """Local wheels are file URLs; a bill of materials has no local paths."""
        name = "plain-1.0-py3-none-any.whl"
        text = lock.read_text().replace(f'url = "{index.file_url(name)}"', f'path = "index/{name}"')
        lock.write_text(text)
        result = run("export", lock, "--for", V1)
        assert f"\nplain @ {(tmp_path / 'index' / name).as_uri()}#sha256=" in result.out
        result = run("export", lock, "--for", V1, "--format", "cyclonedx")
        assert str(tmp_path) not in result.out

    def test_install_from_the_export(
        self, lock: Path, run: Runner, index: RecordingIndex, tmp_path: Path
    ) -> None:
        """``install -r`` accepts the file with its hashes."""
        path = tmp_path / "requirements.txt"
        run("export", lock, "--for", V3, "-o", path)
        words = ("install", "--dry-run", "--json", "-i", index.url, "-t", tmp_path / "t")
        report = run(*words, "--for", V3, "-r", path).object
        labels = {one["name"]: one["label"] for one in report["install"]}
        assert labels == {"fast": "v3", "plain": None, "extra-speed": None}

    @pytest.mark.network
    def test_pip_installs_the_export(
        self, lock: Path, run: Runner, index: RecordingIndex, tmp_path: Path, pip: Path
    ) -> None:
        """Pip installs exactly the chosen wheels, variants as renamed copies."""
        path = tmp_path / "requirements.txt"
        run("export", lock, "--for", V3, "-o", path, "--wheels", tmp_path / "my wheels")
        assert install_with(pip, PIP, path, index) == {
            "fast": "'v3'", "plain": "None", "extra_speed": "None"
        }  # fmt: skip
        run("export", lock, "--for", V1, "--no-variants", "-o", path)
        (tmp_path / "target of pip").rename(tmp_path / "old")
        assert install_with(pip, PIP, path, index) == {"fast": "None", "plain": "None"}

    @pytest.mark.network
    def test_uv_installs_the_export(
        self, lock: Path, run: Runner, index: RecordingIndex, tmp_path: Path, uv: Path
    ) -> None:
        """Uv installs exactly the chosen wheels."""
        path = tmp_path / "requirements.txt"
        run("export", lock, "--for", V3, "-o", path, "--wheels", tmp_path / "my wheels")
        assert install_with(uv, UV, path, index) == {
            "fast": "'v3'", "plain": "None", "extra_speed": "None"
        }  # fmt: skip

    def test_reproducible_copies(self, lock: Path, run: Runner, tmp_path: Path) -> None:
        """B-39: copies are reproducible, and their variant markers are resolved."""
        wheels = tmp_path / "wheels"
        words = ("export", lock, "--for", V3, "--for", V1, "-o", f"{tmp_path}/", "--wheels", wheels)
        run(*words)
        paths = sorted(wheels.glob("*/*.whl"))
        assert [path.relative_to(wheels).as_posix() for path in paths] == [
            f"{V3}/fast-1.0-0_v3-py3-none-any.whl",
            f"{V1}/fast-1.0-0_null-py3-none-any.whl",
        ]
        before = [path.read_bytes() for path in paths]
        run(*words)
        assert [path.read_bytes() for path in paths] == before
        needs = []
        for path in paths:
            with WheelArchive(path, parse_wheel_filename(path.name)) as archive:
                archive.verify()
                lines = archive.metadata().decode().splitlines()
                needs.append([line for line in lines if line.startswith("Requires-Dist")])
        assert needs == [
            ["Requires-Dist: plain", "Requires-Dist: extra-speed"],
            ["Requires-Dist: plain"],
        ]
        assert f"--find-links wheels/{V3}\n" in (tmp_path / f"requirements.{V3}.txt").read_text()

    @pytest.mark.skipif(sys.platform == "win32", reason="needs links")
    def test_links_are_not_followed(self, lock: Path, run: Runner, tmp_path: Path) -> None:
        """A link in place of a machine's folder is an error; no wheel is written elsewhere."""
        wheels, victim = tmp_path / "wheels", tmp_path / "victim"
        wheels.mkdir()
        victim.mkdir()
        words = ("export", lock, "--for", V3, "--for", V1, "-o", f"{tmp_path}/", "--wheels", wheels)
        (wheels / V3).symlink_to(victim)
        result = run(*words, code=1)
        assert str(wheels / V3) in result.err
        assert not list(victim.iterdir())
        (wheels / V3).unlink()
        run(*words)
        path = next((wheels / V3).iterdir())
        path.unlink()
        path.symlink_to(victim / "made.whl")
        run(*words)
        assert not path.is_symlink()
        assert not list(victim.iterdir())

    def test_hash_mismatch(
        self, lock: Path, run: Runner, index: RecordingIndex, tmp_path: Path
    ) -> None:
        """A wheel with another hash than the lock's is not copied."""
        index.faults.content["fast-1.0-py3-none-any-v3.whl"] = b"another"
        path = tmp_path / "requirements.txt"
        words = ("--no-cache-dir", "-o", path, "--wheels", tmp_path / "wheels")
        run("export", lock, "--for", V3, *words, code=4)
        assert not path.exists()
        assert not (tmp_path / "wheels").exists()

    def test_build_number_of_a_copy(
        self, index: RecordingIndex, run: Runner, tmp_path: Path
    ) -> None:
        """The build number of a copy is the original one followed by the label."""
        whole = release_document(
            {"v3": {"x86_64": {"level": ["v3"]}}}, providers={"x86_64": X86_64}
        )
        build_release(tmp_path / "index", "again", "1", whole, ["v3"], build="7b")
        lock = write_lock_of(index, ["again==1"], tmp_path / "pylock.toml")
        result = run("export", lock, "--for", V3, "--wheels", tmp_path / "wheels")
        assert [path.name for path in (tmp_path / "wheels").iterdir()] == [
            "again-1-7b_v3-py3-none-any.whl"
        ]
        assert "refuse variant wheels" not in result.err

    def test_mismatched_wheel(self, index: RecordingIndex, run: Runner, tmp_path: Path) -> None:
        """F-93: the next best wheel is copied and listed instead of a mismatched one."""
        listed = release_document(
            {"v3": {"x86_64": {"level": ["v3"]}}, "v2": {"x86_64": {"level": ["v2"]}}},
            providers={"x86_64": X86_64},
        )
        other = release_document(
            {"v3": {"x86_64": {"level": ["v4"]}}}, providers={"x86_64": X86_64}
        )
        for label, document in (("v3", other), ("v2", listed)):
            build_wheel(tmp_path / "index", "odd", "1", label=label, document=document)
        (tmp_path / "index" / "odd-1-variants.json").write_text(json.dumps(listed))
        lock = write_lock_of(index, ["odd==1"], tmp_path / "pylock.toml")
        result = run("export", lock, "--for", V3, "--wheels", tmp_path / "wheels")
        assert "# odd: label v2, for" in result.out
        assert [path.name for path in (tmp_path / "wheels").iterdir()] == [
            "odd-1-0_v2-py3-none-any.whl"
        ]

    def test_no_copies_if_a_machine_fails(self, lock: Path, run: Runner, tmp_path: Path) -> None:
        """If one machine fails, no copies remain."""
        text = lock.read_text()
        lock.write_text(
            text.replace("extra_speed-1.0-py3-none-any", "extra_speed-1.0-1-py3-none-win32")
        )
        words = ("--wheels", tmp_path / "new" / "wheels", "-o", f"{tmp_path}/out/")
        run("export", lock, "--for", V1, "--for", V3, *words, code=3)
        run("export", lock, "--for", V1, "--for", V1, *words, code=2)
        assert not [name for name in ("new", "out") if (tmp_path / name).exists()]

    def test_no_copies_without_the_file(self, lock: Path, run: Runner, tmp_path: Path) -> None:
        """If the file cannot be written, the folder of copies remains unchanged."""
        wheels = tmp_path / "wheels"
        wheels.mkdir()
        (wheels / "fast-1.0-0_v3-py3-none-any.whl").write_bytes(b"of another lock")
        words = ("--wheels", wheels, "-o", tmp_path / "none" / "requirements.txt")
        run("export", lock, "--for", V3, *words, code=1)
        assert [path.read_bytes() for path in wheels.iterdir()] == [b"of another lock"]

    def test_folder_name_that_cannot_be_written(
        self, lock: Path, run: Runner, tmp_path: Path
    ) -> None:
        """A folder name with ${NAME}, a line break, a comment, an option or a marker is refused."""
        for name in ("${HOME}", "two\nlines", "a #b", "a -b", "a;b"):
            result = run("export", lock, "--for", V3, "--wheels", tmp_path / name, code=1)
            assert "cannot name this folder" in result.err
            assert not (tmp_path / name).exists()


class TestBillOfMaterials:
    """``--format cyclonedx``."""

    def test_document_for_each_machine(
        self, lock: Path, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each machine has a valid document, which is reproducible."""
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
        words = ("export", lock, "--format", "cyclonedx", "--for", V3, "--for", V1)
        run(*words, "-o", f"{tmp_path}/")
        validator = JsonStrictValidator(SchemaVersion.V1_6)
        texts = {}
        for name in (V3, V1):
            texts[name] = (tmp_path / f"bom.{name}.cdx.json").read_text()
            assert validator.validate_str(texts[name]) is None
        names = {
            name: [component["name"] for component in json.loads(text)["components"]]
            for name, text in texts.items()
        }
        assert names == {V3: ["extra-speed", "fast", "plain"], V1: ["fast", "plain"]}
        assert json.loads(texts[V3])["metadata"]["timestamp"] == "1970-01-02T00:00:00Z"
        result = run("export", lock, "--format", "cyclonedx", "--for", V3)
        assert result.out == texts[V3]
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
        run(*words, "--json", code=1)

    def test_no_whole_wheels_are_downloaded(
        self, lock: Path, run: Runner, index: RecordingIndex
    ) -> None:
        """Licences are read without downloading whole wheels."""
        index.clear_requests()
        run("export", lock, "--format", "cyclonedx", "--for", V1, "--no-cache-dir")
        asked = [request for request in index.requests if request.path.endswith(".whl")]
        assert all("range" in one.headers for one in asked)


class TestLicenses:
    """``--format licenses``."""

    def test_table(self, lock: Path, run: Runner) -> None:
        """The table is aligned, and control characters of metadata are removed."""
        result = run("export", lock, "--format", "licenses", "--for", V3)
        assert result.out.splitlines()[0] == f"Licences of pylock.toml for {V3}"
        assert result.out.splitlines()[3:] == [
            "Package      Version  Label  License   Files",
            "-----------  -------  -----  --------  -------",
            "extra-speed  1.0             unknown",
            "fast         1.0      v3     MIT       LICENSE",
            "plain        1.0             BSD [31m",
        ]

    def test_json_report(self, lock: Path, run: Runner) -> None:
        """The JSON object has the machines separately."""
        words = ("export", lock, "--format", "licenses", "--for", V3, "--for", V1, "--json")
        report = run(*words).object
        assert [target["target"] for target in report["targets"]] == [V3, V1]
        (fast,) = [
            package for package in report["targets"][0]["packages"] if package["name"] == "fast"
        ]
        assert fast["license"] == {
            "kind": "expression",
            "text": "MIT",
            "source": "License-Expression",
            "files": ["LICENSE"],
        }

    def test_many_licence_files(self, index: RecordingIndex, run: Runner, tmp_path: Path) -> None:
        """The table abbreviates many licence files; the JSON object has them all."""
        files = [("License-File", f"LICENSE.{number}") for number in range(20)]
        build_wheel(tmp_path / "index", "many", "1.0", metadata_extra=files)
        lock = write_lock_of(index, ["many==1.0"], tmp_path / "pylock.toml")
        result = run("export", lock, "--format", "licenses", "--for", V1)
        assert result.out.rstrip().endswith("LICENSE.0, LICENSE.1, LICENSE.2 and 17 more")
        result = run("export", lock, "--format", "licenses", "--for", V1, "--json")
        assert len(result.object["targets"][0]["packages"][0]["license"]["files"]) == 20

    def test_offline(self, lock: Path, run: Runner) -> None:
        """A licence that cannot be read is "not read", not "unknown"."""
        result = run("export", lock, "--format", "licenses", "--for", V3, "--offline")
        assert "fast         1.0      v3     not read" in result.out
        assert "cannot be read" in result.err


class TestErrors:
    """Exports that fail."""

    def refused(self, run: Runner, *words: str | Path, code: int) -> CommandResult:
        """Run a command that must fail, without standard output."""
        result = run("export", *words, code=code)
        assert result.out == ""
        return result

    def test_conflicting_options(self, lock: Path, run: Runner, tmp_path: Path) -> None:
        """Copies need the requirements format; host names must differ without regard to case."""
        self.refused(run, lock, "--wheels", tmp_path, "--format", "licenses", code=2)
        hosts = []
        for folder, name in (("a", "Node.toml"), ("b", "node.toml")):
            (tmp_path / folder).mkdir()
            hosts.append(tmp_path / folder / name)
            hosts[-1].write_text('[metadata]\nversion = "0.1"\n')
        words = ("--for", hosts[0], "--for", hosts[1], "-o", f"{tmp_path}/out/")
        said = self.refused(run, lock, *words, code=2)
        assert "two machines are called node.toml" in said.err
        assert not (tmp_path / "out").exists()

    def test_no_compatible_wheel(self, lock: Path, run: Runner, tmp_path: Path) -> None:
        """If one machine cannot be served, no file is written."""
        text = lock.read_text()
        lock.write_text(text.replace("plain-1.0-py3-none-any", "plain-1.0-cp311-cp311-win_amd64"))
        words = ("--for", V3, "--for", V1, "-o", f"{tmp_path}/out/")
        said = self.refused(run, lock, *words, code=3)
        assert f"{V3} cannot be served: plain has no wheel" in said.err
        assert not (tmp_path / "out").exists()
