"""``wheelfit bridges update``: installing newer families from an index."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from cli.running import Runner
from programs import run_program
from sampled_cases import sampled
from web_servers import served

from wheelfit.sources.bridges import catalogue
from wheelfit.testing.attestations import SigningAuthority
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

DEFINITIONS = Path(catalogue.__file__).with_name("definitions")
SHIPPED = {
    name: (DEFINITIONS / f"{name}.toml").read_text(encoding="utf-8")
    for name in ("cupy", "faiss", "indexes/pytorch", "xgboost")
}
"""Some of the families that ship: each update reads all that the wheel has."""
NEWER, NEWEST = "2999.1.2", "2999.1.3"
ACME = """
name = "acme"
source = "https://acme.example/install"
checked = 2026-11-22
says = "acme-gpu has the files of acme"

[[member]]
distribution = "acme-gpu"
label = "cuda12"
when.nvidia.cuda_version_lower_bound = ["12.0"]

[[member]]
distribution = "acme"
"""
"""A family that does not ship."""


def publish(
    folder: Path, version: str = NEWER, changes: Mapping[str, str | None] | None = None
) -> Path:
    """Write a wheel of the shipped families."""
    contents = {**SHIPPED, **(changes or {})}
    files = {
        f"wheelfit_families/{name}.toml": text
        for name, text in contents.items()
        if text is not None
    }
    return build_wheel(folder, "wheelfit-families", version, files=files)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which an update is stored."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "state"))
    return catalogue.update_file(os.environ)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Return the folder of the index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def index(wheels: Path) -> Iterator[RecordingIndex]:
    """Return an index on the loopback interface."""
    with RecordingIndex(wheels) as index:
        yield index


@pytest.fixture
def update(run: Runner, index: RecordingIndex) -> Callable[..., dict[str, object]]:
    """Return what runs the command with the index, and returns its object."""

    def update(*words: str, code: int = 0) -> dict[str, object]:
        where = ("--index-url", index.url)
        return run("bridges", "update", *where, *words, "--json", code=code).object

    return update


Update = Callable[..., dict[str, object]]


def code_of(said: dict[str, object]) -> str:
    """Return the code of the error of a command."""
    error = said["error"]
    assert isinstance(error, dict)
    return str(error["code"])


def test_new_and_changed_families(run: Runner, update: Update, wheels: Path, state: Path) -> None:
    """New and changed families apply until the update is removed, and show their dates."""
    changed = SHIPPED["xgboost"].replace("checked = 2026", "checked = 2027")
    wheel = publish(wheels, changes={"acme": ACME, "xgboost": changed})
    result = update()
    assert result["action"] == "updated"
    assert result["data"] == {
        "version": NEWER,
        "origin": "update",
        "shipped": catalogue.SHIPPED_VERSION,
    }
    assert result["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert (result["added"], result["changed"], result["restricted"]) == (["acme"], ["xgboost"], {})
    assert "acme-gpu" in run("bridges", "show", "acme").out
    assert "compared 2027" in run("bridges", "show", "xgboost").out
    assert run("bridges", "list").err == (
        f"the families of {NEWER}, by `wheelfit bridges update`\n"
    )
    assert "compared 2026" in run("bridges", "show", "xgboost", "--shipped-bridges").out
    assert update()["action"] == "current"
    assert update("--remove")["action"] == "removed"
    assert not state.exists()
    assert "as shipped" in run("bridges", "list").err
    run("bridges", "show", "acme", code=1)
    assert update("--remove")["action"] == "current"


def test_install_with_an_updated_family(
    run: Runner, update: Update, wheels: Path, tmp_path: Path
) -> None:
    """A family of an update presents variants when it is named, unless that is forbidden."""
    publish(wheels, changes={"acme": ACME})
    for name in ("acme", "acme-gpu"):
        build_wheel(wheels, name, "1", files={"acme.py": ""})
    update()
    words = ("install", "--dry-run", "--target", str(tmp_path / "target"), "--for", "cuda-12.8")
    sources = ("--no-index", "--find-links", str(wheels), "acme", "--json")
    report = run(*words, *sources, "--bridge", "acme").object
    assert "acme-gpu" in json.dumps(report)
    plain = run(*words, *sources).object
    assert plain.pop("accelerators")[0]["remedies"] == ["--bridge acme"]
    assert "acme-gpu" not in json.dumps(plain)
    refused = run(*words, *sources, "--bridge", "acme", "--shipped-bridges", code=1)
    assert "unknown bridge 'acme'" in refused.error["message"]


def test_no_newer_release(update: Update, index: RecordingIndex, wheels: Path, state: Path) -> None:
    """Releases that are not newer, and pre-releases, are not fetched."""
    names = [publish(wheels, version).name for version in ("2026.1.2", catalogue.SHIPPED_VERSION)]
    names += [publish(wheels, version).name for version in (f"{NEWER}rc1", "2999")]
    result = update()
    assert result["action"] == "current"
    assert not state.exists()
    assert not any(index.bytes_sent(name) for name in names)


def test_older_update_is_ignored(run: Runner, state: Path) -> None:
    """An update that is older than the shipped families is ignored."""
    state.parent.mkdir(parents=True, mode=0o700)
    kept = {"version": "2026.1.2", "sha256": "", "source": "", "signers": [], "left_out": {}}
    state.write_text(json.dumps({**kept, "files": {"acme": ACME}}), encoding="utf-8")
    run("bridges", "show", "acme", code=1)


def test_no_downgrade(update: Update, wheels: Path) -> None:
    """An index that lists only older releases than the stored update changes nothing."""
    newest = publish(wheels, NEWEST, {"acme": ACME})
    update()
    newest.unlink()
    publish(wheels, NEWER)
    result = update()
    assert (result["action"], result["added"]) == ("current", ["acme"])


def test_yanked_release(update: Update, index: RecordingIndex, wheels: Path) -> None:
    """A yanked release is not used."""
    index.faults.yanked[publish(wheels, NEWEST).name] = "wrong"
    publish(wheels, NEWER)
    assert update()["data"]["version"] == NEWER  # type: ignore[index]


def test_folder_and_missing_project(
    run: Runner, update: Update, index: RecordingIndex, wheels: Path
) -> None:
    """A folder works as an index; a missing project and an offline index are errors."""
    assert code_of(update(code=3)) == "project-not-found"
    publish(wheels)
    result = run("bridges", "update", "--offline", "--no-index", "--find-links", wheels, "--json")
    assert result.object["source"] == str(wheels)
    offline = ("--offline", "--index-url", index.url, "--cache-dir", wheels.parent / "empty")
    run("bridges", "update", *offline, "--json", code=5)


class TestWrongWheels:
    """Wheels with anything but sound families, which are refused as a whole."""

    @pytest.mark.parametrize(
        "name",
        [
            "wheelfit_families/__init__.py",
            "wheelfit_families/acme.py",
            "wheelfit_families/deep/er/acme.toml",
            "wheelfit_families/indexes/Acme.toml",
            "wheelfit_families/acme",
            "acme.toml",
            "acme.pth",
            f"wheelfit_families-{NEWER}.data/scripts/acme",
            f"wheelfit_families-{NEWER}.data/purelib/acme.toml",
            f"wheelfit_families-{NEWER}.dist-info/entry_points.txt",
            f"wheelfit_families-{NEWER}.dist-info/licenses/a/b.py",
        ],
    )
    def test_other_files(self, name: str, update: Update, wheels: Path, state: Path) -> None:
        """Modules, scripts, entry points and files in other folders are refused."""
        files = {"wheelfit_families/acme.toml": ACME, name: ""}
        build_wheel(wheels, "wheelfit-families", NEWER, files=files)
        assert code_of(update(code=4)) == "invalid-wheel"
        assert not state.exists()

    @pytest.mark.parametrize(
        ("changes", "code", "words"),
        sampled(
            fast={0, 3, 6, 8},
            cases=[
                ({"acme": "name = "}, 1, "acme.toml"),
                ({"acme": ""}, 1, "member"),
                ({"acme": ACME.replace("12.0", "twelve point nought")}, 1, "member[0]"),
                ({"emca": ACME}, 4, "of another family"),
                ({"indexes/acme": ACME}, 4, "of another family"),
                ({"acme": ACME, "indexes/acme": ACME}, 4, "twice"),
                ({"acme": ACME + "#" * (1 << 20)}, 4, "bytes"),
                (
                    {"indexes/pytorch": None, "pytorch": SHIPPED["indexes/pytorch"]},
                    4,
                    "another family",
                ),
                (dict.fromkeys(SHIPPED), 4, "no family"),
            ],
        ),
    )
    def test_faulty_family(
        self,
        changes: dict[str, str | None],
        code: int,
        words: str,
        update: Update,
        wheels: Path,
        state: Path,
    ) -> None:
        """One faulty family makes the command refuse the whole update."""
        publish(wheels, changes=changes)
        result = update(code=code)
        assert words in json.dumps(result["error"])
        assert not state.exists()

    def test_wheel_with_requirements(self, update: Update, wheels: Path) -> None:
        """A wheel with requirements is refused, as an installer would install them."""
        files = {"wheelfit_families/acme.toml": ACME}
        build_wheel(wheels, "wheelfit-families", NEWER, files=files, requires=["evil"])
        assert code_of(update(code=4)) == "invalid-wheel"

    def test_wrong_hash(self, update: Update, index: RecordingIndex, wheels: Path) -> None:
        """A file whose hash is not the one of the index is refused."""
        index.faults.wrong_hash.add(publish(wheels).name)
        assert code_of(update(code=4)) == "hash-mismatch"

    def test_record_mismatch(self, update: Update, wheels: Path) -> None:
        """A file that differs from RECORD is refused."""
        wheel = publish(wheels, changes={"acme": ACME})
        with zipfile.ZipFile(wheel) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        members["wheelfit_families/acme.toml"] += b"\n"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        assert code_of(update(code=4)) == "invalid-wheel"

    @pytest.mark.parametrize("sizes", sampled([True, False], fast={1}))
    def test_huge_wheel(
        self, *, sizes: bool, update: Update, index: RecordingIndex, wheels: Path
    ) -> None:
        """A huge wheel is not fetched completely, with or without a size in the index."""
        index.faults.sizes = sizes
        files = {f"wheelfit_families/a{number}.toml": os.urandom(1 << 20) for number in range(16)}
        wheel = build_wheel(wheels, "wheelfit-families", NEWER, files=files)
        update(code=4 if sizes else 5)
        assert index.bytes_sent(wheel.name) < 8 << 20

    def test_zip_bomb(self, update: Update, wheels: Path) -> None:
        """An archive that would expand too far is refused before it expands."""
        wheel = wheels / f"wheelfit_families-{NEWER}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(40):
                archive.writestr(f"wheelfit_families/a{number}.toml", bytes(1 << 20))
            for name in ("METADATA", "WHEEL", "RECORD"):
                text = "Wheel-Version: 1.0\n" if name == "WHEEL" else ""
                archive.writestr(f"wheelfit_families-{NEWER}.dist-info/{name}", text)
        assert code_of(update(code=4)) == "invalid-wheel"


def test_hint_names_an_updated_family(
    run: Runner, update: Update, index: RecordingIndex, wheels: Path
) -> None:
    """Hints name a family of an update as they name a shipped family."""
    publish(wheels, changes={"acme": ACME})
    build_wheel(wheels, "acme-gpu", "1.0", tag="py3-none-any")
    words = ("explain", "acme", "--index-url", index.url, "--json")

    def hint(*more: str) -> str:
        return str(run(*words, *more, code=3).object["error"]["hint"])

    assert "--bridge" not in hint()
    update()
    assert "--bridge acme takes one of acme-gpu" in hint()
    assert "--bridge" not in hint("--shipped-bridges")


def test_family_in_a_newer_format(run: Runner, update: Update, wheels: Path) -> None:
    """A family in an unknown format is left out with the reason; the shipped one applies."""
    newer = f"format = 2\nsomething = 1\n{SHIPPED['cupy']}"
    publish(wheels, changes={"cupy": newer, "acme": ACME})
    result = update()
    assert result["left_out"] == {"cupy": "its format is 2, for a newer wheelfit than this one"}
    assert result["added"] == ["acme"]
    assert "cupy-cuda13x" in run("bridges", "show", "cupy").out


def test_text_output(run: Runner, index: RecordingIndex, wheels: Path) -> None:
    """The text lists new families, families left out, and changes that need consent."""
    pytorch = SHIPPED["indexes/pytorch"].replace("hosts = [", 'hosts = ["evil.example", ')
    publish(
        wheels,
        changes={
            "acme": ACME,
            "cupy": f"format = 2\n{SHIPPED['cupy']}",
            "indexes/pytorch": pytorch.replace('    "torch", ', '    "torch", "numpy", '),
            "faiss": SHIPPED["faiss"].replace("\nsays =", "\nby-default = true\nsays ="),
        },
    )
    out = run("bridges", "update", "--index-url", index.url).out
    assert out.startswith(f"updated; in use: the families of {NEWER}, by `wheelfit bridges update`")
    assert "not signed" in out
    assert "new      acme" in out
    assert "cupy is left out: its format is 2" in out
    text = " ".join(out.split())
    assert "of pytorch is not used, because it names the host evil.example, " in text
    assert " stands for numpy" in text
    assert "of faiss is not used, because it would be used without --bridge; accept it" in text


@pytest.mark.parametrize("by", ["variable", "file"])
def test_shipped_bridges_setting(
    by: str, run: Runner, update: Update, wheels: Path, user_settings: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """With ``shipped-bridges`` nothing is fetched and a stored update is ignored."""
    publish(wheels, changes={"acme": ACME})
    update()
    if by == "variable":
        monkeypatch.setenv("WHEELFIT_SHIPPED_BRIDGES", "true")
    else:
        user_settings.write_text("shipped-bridges = true\n")
    run("bridges", "show", "acme", code=1)
    refused = update(code=7)
    assert code_of(refused) == "refused"
    assert "the setting shipped-bridges" in str(refused["error"])


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 1}', "\xff"])
def test_damaged_state_file(content: str, run: Runner, update: Update, state: Path) -> None:
    """A damaged update is an error whose hint names --remove."""
    state.parent.mkdir(parents=True, mode=0o700)
    state.write_bytes(content.encode("latin-1"))
    result = run("bridges", "list", "--json", code=1)
    assert "--remove" in result.error["hint"]
    update("--remove")
    run("bridges", "list")


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are of another kind there")
def test_state_file_writable_by_others(run: Runner, state: Path) -> None:
    """A file that other users can write is refused: they could redirect downloads."""
    state.parent.mkdir(parents=True)
    state.parent.chmod(0o777)
    state.write_text("{}")
    assert "others can write" in run("bridges", "list", "--json", code=1).error["message"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are of another kind there")
def test_state_folder_cannot_be_written(update: Update, wheels: Path, state: Path) -> None:
    """A state folder that cannot be created is an error."""
    publish(wheels)
    state.parent.parent.write_text("a file in place of a folder")
    assert code_of(update(code=1)) == "file-problem"


class AttestedIndex:
    """An index with one release of the families, attested or not."""

    def __init__(self, folder: Path, origin: str, authority: SigningAuthority) -> None:
        self._folder = folder
        self._origin = origin
        self._authority = authority
        self._environ = {**os.environ, **authority.trust(folder.parent / "trusted")}

    def publish_release(self, version: str, *, by: str = "acme/families", of: str = "") -> None:
        """Publish a release in place of the previous one."""
        wheel = publish(self._folder, version, {"acme": ACME})
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        mark = ""
        if by:
            signer = self._authority if by == "acme/families" else SigningAuthority(by)
            publisher = {"kind": "GitHub", "repository": by, "workflow": "release.yml"}
            attestation = json.loads(signer.attest(wheel.name, of or sha256))
            bundle = {"publisher": publisher, "attestations": [attestation]}
            document = json.dumps({"version": 1, "attestation_bundles": [bundle]})
            (self._folder / f"{wheel.name}.provenance").write_text(document, "utf-8")
            mark = f' data-provenance="/{wheel.name}.provenance"'
        page = self._folder / "simple" / "wheelfit-families" / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        link = f'<a href="/{wheel.name}#sha256={sha256}"{mark}>{wheel.name}</a>'
        page.write_text(f"<!DOCTYPE html><html><body>{link}</body></html>", "utf-8")

    def update(self, *words: str, code: int = 0, without: str = "") -> dict[str, object]:
        """Run the command in a process of its own, which reads the root of trust once.

        :param without: a library that cannot be imported.
        """
        start = "import sys; from importlib.machinery import PathFinder as Finder\n"
        if without:
            start += (
                "find = Finder.find_spec\n"
                "Finder.find_spec = classmethod(lambda kind, name, *rest: None "
                f"if name == {without!r} else find(name, *rest))\n"
            )
        start += "from wheelfit.cli.main import main; sys.exit(main(sys.argv[1:]))"
        command = [
            sys.executable,
            "-c",
            start,
            "bridges",
            "update",
            "-i",
            f"{self._origin}/simple/",
        ]
        completed = run_program(
            *command, "--no-cache-dir", "--json", *words, code=code, env=self._environ
        )
        report = json.loads(completed.stdout)
        assert isinstance(report, dict)
        return {**report, "stderr": completed.stderr}


@pytest.mark.skipif(sys.platform != "linux", reason="caches are found as on Linux")
class TestAttestations:
    """Attestations of an update, where the index has them."""

    @pytest.fixture
    def attested(self, wheels: Path) -> Iterator[AttestedIndex]:
        """Return an index whose releases are attested."""
        pytest.importorskip("pypi_attestations", reason="needs the extra `attestations`")
        with served(wheels) as origin:
            yield AttestedIndex(wheels, origin, SigningAuthority("acme/families"))

    @pytest.mark.integration
    def test_publisher_is_pinned(self, attested: AttestedIndex) -> None:
        """An attested update is verified by default; later updates need the same publisher."""
        attested.publish_release(NEWER)
        result = attested.update()
        assert result["signers"] == ["github:acme/families"]
        attested.publish_release(NEWEST, by="")
        refused = attested.update(code=4)
        assert code_of(refused) == "attestation"
        assert "--remove" in json.dumps(refused["error"])
        attested.publish_release(NEWEST)
        assert attested.update()["action"] == "updated"

    @pytest.mark.integration
    def test_invalid_attestations(self, attested: AttestedIndex, state: Path) -> None:
        """Signatures of other bytes or of untrusted publishers are refused."""
        attested.publish_release(NEWER, of="0" * 64)
        assert code_of(attested.update(code=4)) == "attestation"
        attested.publish_release(NEWER, by="evil/families")
        assert code_of(attested.update(code=4)) == "attestation"
        assert not state.exists()

    @pytest.mark.integration
    def test_required_publisher(self, attested: AttestedIndex) -> None:
        """The options of install that require a publisher or an attestation apply."""
        attested.publish_release(NEWER)
        named = ("--trusted-publisher", "wheelfit-families=github:other/families")
        assert code_of(attested.update(*named, code=4)) == "attestation"
        attested.publish_release(NEWER, by="")
        required = ("--require-attestations", "wheelfit-families")
        assert code_of(attested.update(*required, code=4)) == "attestation"
        assert attested.update()["signers"] == []

    @pytest.mark.integration
    def test_missing_attestation_library(self, attested: AttestedIndex) -> None:
        """Without the library there is a note, and an error if verification was requested."""
        attested.publish_release(NEWER)
        asked = attested.update("--verify-attestations", code=1, without="pypi_attestations")
        assert "not installed" in json.dumps(asked["error"])
        result = attested.update(without="pypi_attestations")
        assert (result["action"], result["signers"]) == ("updated", [])
        assert "not verified" in str(result["stderr"])
