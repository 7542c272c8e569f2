"""What is found in whole indexes only: variants for nobody, pins that cannot be met."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from web_servers import served

from wheelfit.server.folder import FolderIndex
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response
from wheelfit.testing.wheels import build_release, build_wheel, release_document

NVIDIA: dict[str, dict[str, object]] = {
    "nvidia": {
        "requires": ["nvidia-variant-provider>=0.0.1,<1"],
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    },
    "x86_64": {"requires": ["x86-64-variant-provider>=0.2.1,<1"]},
}


def found(said: CommandResult, code: str) -> list[str]:
    """Return the messages of a check."""
    return [finding["message"] for finding in said.object["findings"] if finding["code"] == code]


def release(folder: Path, variants: dict[str, dict[str, dict[str, list[str]]]]) -> None:
    """Write a release with these variants, a plain wheel and an index file."""
    document = release_document(variants, providers=NVIDIA)
    build_release(folder, "fast", "1.0", document, (None, *variants))


class TestReach:
    """Who could take a variant."""

    def test_no_machine_has_it_all(self, run: Runner, tmp_path: Path) -> None:
        """F-28: a GPU that no driver for such a CUDA knows is not a machine."""
        release(
            tmp_path,
            {
                "null": {},
                "cu128": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
                "odd": {"nvidia": {"cuda_version_upper_bound": ["12.0"], "sm_arch": ["120_real"]}},
            },
        )
        result = run("index", "check", tmp_path, "--json")
        (message,) = found(result, "no-known-machine")
        assert "odd" in message
        assert not found(result, "shadowed-variant")

    def test_another_label_is_always_above(self, run: Runner, tmp_path: Path) -> None:
        """F-66: with equal best values the label decides, so one of both is never taken."""
        levels = {"v3": ["v3"], "avx2": ["v1", "v3"]}
        release(
            tmp_path,
            {"null": {}} | {name: {"x86_64": {"level": of}} for name, of in levels.items()},
        )
        (message,) = found(run("index", "check", tmp_path, "--json"), "shadowed-variant")
        assert message == "fast 1.0: v3 ranks below avx2 on every machine that it fits"

    def test_other_pythons_are_no_shadow(self, run: Runner, tmp_path: Path) -> None:
        """A label above that has no wheel for this Python is not in the way."""
        levels = {"v3": ["v3"], "avx2": ["v1", "v3"]}
        document = release_document(
            {name: {"x86_64": {"level": of}} for name, of in levels.items()}, providers=NVIDIA
        )
        for label, tag in (("v3", "cp313-cp313-any"), ("avx2", "cp312-cp312-any")):
            build_wheel(tmp_path, "fast", "1.0", label=label, document=document, tag=tag)
        assert not found(run("index", "check", tmp_path, "--json"), "shadowed-variant")

    def test_static_lists_are_for_those_who_ask(self, run: Runner, tmp_path: Path) -> None:
        """Where no machine decides it is a note: a wish does."""
        static = {"blas": {"library": ["openblas", "mkl"]}}
        document = release_document(
            {
                "mkl": {"blas": {"library": ["mkl"]}},
                "open": {"blas": {"library": ["openblas"]}},
            },
            static=static,
        )
        for label in ("mkl", "open"):
            build_wheel(tmp_path, "fast", "1.0", label=label, document=document)
        result = run("index", "check", tmp_path, "--json")
        (finding,) = (
            finding
            for finding in result.object["findings"]
            if finding["code"] == "shadowed-variant"
        )
        assert finding["severity"] == "note"
        assert finding["message"] == "fast 1.0: mkl must be requested by the user"


class TestPins:
    """F-92: versions that wheels pin."""

    @pytest.mark.parametrize(
        ("need", "finding"),
        [
            ("plain==1.0", None),
            ("plain==1", None),
            ("plain>=1", None),
            ("plain>=7", None),  # no pin
            ("plain==1.*", None),
            (
                "plain==9.1; platform_system == 'Linux'",
                "plain==9.1 is required, but the sources have only",
            ),
            ("gone===1", "no source has the project"),
        ],
    )
    def test_they_are_met_from_the_folder(
        self, run: Runner, tmp_path: Path, need: str, finding: str | None
    ) -> None:
        """A pin is met by that version, whatever needs it."""
        build_wheel(tmp_path, "plain", "1.0")
        build_wheel(tmp_path, "fast", "1.0", requires=[need])
        code = 9 if need.startswith("plain==9") else 0
        messages = found(run("index", "check", tmp_path, "--json", code=code), "unmet-pin")
        assert len(messages) == (finding is not None)
        assert all((finding or "") in message for message in messages)

    def test_another_index_may_have_them(self, run: Runner, tmp_path: Path) -> None:
        """What is named with ``--index-url`` counts; what is nowhere then is an error."""
        build_wheel(tmp_path / "other", "needed", "2.0")
        folder = tmp_path / "dist"
        build_wheel(folder, "fast", "1.0", requires=["needed==2.0", "lost==1"])
        words = ["--json", "--no-index", "-f", str(tmp_path / "other")]
        (message,) = found(run("index", "check", folder, *words, code=9), "unmet-pin")
        assert message.startswith("lost==1 is required")


def test_strange_answers(run: Runner, tmp_path: Path) -> None:
    """403 for what is not there, and metadata that is promised in vain, are told."""
    build_wheel(tmp_path / "dist", "fast", "1.0", requires=["gone==1"])
    index = FolderIndex(tmp_path / "dist")

    def untidy(request: Request) -> Response:
        if request.path.endswith(".metadata"):
            return Response.text(404, "no")
        answer = index(request)
        return Response.text(403, "no") if answer.status == 404 else answer

    with LoopbackServer(untidy) as server:
        result = run("index", "check", f"{server.origin}/simple/", "--json")
    messages = found(result, "strange-answer")
    assert any("403 for wheelfit-asks-for-a-missing-project" in message for message in messages)
    assert any("promises a metadata file" in message for message in messages)
    assert result.object["checked"]["wheels"] == 1
    assert found(result, "unmet-pin")


def test_files_without_hashes(run: Runner, tmp_path: Path) -> None:
    """F-71: pages that promise no hashes are told, once for each project."""
    folder = tmp_path / "pages" / "fast"
    for version in ("1.0", "2.0"):
        build_wheel(folder, "fast", version)
    names = sorted(path.name for path in folder.iterdir())
    (folder / "index.html").write_text("".join(f'<a href="{name}">{name}</a>' for name in names))
    (tmp_path / "pages" / "index.html").write_text(
        '<a href="fast/">fast</a><a href="gone/">gone</a><a href="..">up</a>'
    )
    with served(tmp_path / "pages") as origin:
        result = run("index", "check", f"{origin}/", "--json")
    (message,) = found(result, "unhashed-files")
    assert message.startswith("files of fast without a hash (2 of 2)")
    assert found(result, "strange-answer") == ["gone is in the list of projects, but has no page"]


def test_metadata_beside_a_wheel(run: Runner, tmp_path: Path) -> None:
    """F-95: what a page of this machine promises of METADATA is held against it, and the wheel."""
    wheel = build_wheel(tmp_path, "fast", "1.0")
    run("index", "generate", tmp_path)
    beside = Path(f"{wheel}.metadata")
    assert not run("index", "check", tmp_path, "--json").object["findings"]
    beside.write_bytes(beside.read_bytes() + b"\n")
    codes = {
        finding["code"]
        for finding in run("index", "check", tmp_path, "--json", code=9).object["findings"]
    }
    assert codes == {"wrong-hash", "metadata-differs"}
    beside.unlink()
    result = run("index", "check", tmp_path, "--json", code=9)
    assert found(result, "missing-file") == ["fast-1.0-py3-none-any.whl.metadata does not exist"]


def test_a_project_that_the_index_has_not(run: Runner, tmp_path: Path) -> None:
    """Who names a project is not told that the list of projects has it."""
    build_wheel(tmp_path, "fast", "1.0")
    with LoopbackServer(FolderIndex(tmp_path)) as server:
        url = f"{server.origin}/simple/"
        run("index", "check", url, "--project", "fast")
        result = run("index", "check", url, "--project", "fsat", code=3)
    assert "the index has no project fsat" in result.err


def test_pages_for_people_are_no_index(run: Runner, tmp_path: Path) -> None:
    """Beside an index that is sound, pages that `--site` wrote are no fault."""
    pytest.importorskip("jinja2", reason="needs the extra `server`")
    static = {"blas": {"library": ["mkl"]}}
    document = release_document({"null": {}, "mkl": static}, static=static)
    for label in ("null", "mkl"):
        build_wheel(tmp_path / "dist", "fast", "1.0", label=label, document=document)
    run("index", "generate", tmp_path / "dist", "--to", tmp_path / "site", "--site")
    assert (tmp_path / "site/project/fast/1.0/index.html").exists()
    report = run("index", "check", tmp_path / "site", "--json").object
    assert not [finding for finding in report["findings"] if "project/" in finding["message"]], (
        report
    )
    assert report["unchecked"] == []


def test_nothing_is_no_index_without_faults(run: Runner, tmp_path: Path) -> None:
    """A page that lists no project, as the one above the index, was not checked."""
    with LoopbackServer(FolderIndex(tmp_path)) as server:
        result = run("index", "check", f"{server.origin}/simple/", "--json", code=10)
    (unchecked,) = result.object["unchecked"]
    assert unchecked["message"] == "the index has no projects to check"


def test_wrong_usage(run: Runner, tmp_path: Path) -> None:
    """A folder that is not there is an error, as is a project of a folder."""
    run("index", "check", tmp_path / "none", code=1)
    run("index", "check", tmp_path, "--project", "fast", code=2)


def test_published_releases(run: Runner, releases: Path) -> None:
    """Every document of an index from before PEP 850 is told, and nothing remains unchecked."""
    result = run("index", "check", releases, "--json", code=9)
    count = len(list(releases.rglob("*-variants.json")))
    assert result.object["checked"]["index_files"] == count
    assert len(found(result, "old-layout")) == count
    assert not result.object["unchecked"]


def test_the_published_index(run: Runner, shared_data: Path) -> None:
    """The mirrored public index: all its old documents are told, and some mistakes."""
    result = run("index", "check", shared_data / "variants-index", "--json", code=9)
    assert result.object["checked"]["index_files"] == 132
    assert len(found(result, "old-layout")) == 132
    assert found(result, "label-without-wheel")
    assert not result.object["unchecked"]


def test_contents(run: Runner, tmp_path: Path) -> None:
    """It says that contents were not read, unless they were."""
    release(tmp_path, {"null": {}})
    words = "contents were not compared"
    assert words in run("index", "check", tmp_path).err
    assert words not in run("index", "check", tmp_path, "--full").err
    assert words not in run("index", "check", tmp_path, "--quiet").err
