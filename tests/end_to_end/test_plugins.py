"""Plugins on the user's terms: trusted, installed apart, asked, and never in anybody's way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner, tree
from hostile.plugins import hostile
from programs import until

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.plugins import Plugin, fictional_hw, fictional_tech, simple_plugin
from wheelfit.testing.wheels import build_release, build_wheel, release_document

pytestmark = pytest.mark.usefixtures("bare_environment")

GPU = simple_plugin("acme", {"generation": ["2", "1"]}, version="1.2")
OTHER = simple_plugin("other", {"kind": ["a"]})


@pytest.fixture
def own_files(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of trusted plugins of the test."""
    del run
    trust = tmp_path / "settings" / "providers.toml"
    monkeypatch.setenv("WHEELFIT_PROVIDERS_FILE", str(trust))
    return trust


class Decided:
    """Hold what `explain --json` said of one project."""

    def __init__(self, run: Runner, *words: str | Path, code: int = 0) -> None:
        self.said = run("explain", *words, "--json", code=code)
        (self.project,) = self.said.object["projects"]

    @property
    def fitting(self) -> list[str | None]:
        """Return the labels that fit, best first."""
        candidates = self.project["candidates"]
        return [
            candidate["label"] for candidate in candidates if candidate["verdict"] != "rejected"
        ]

    def provider(self, namespace: str) -> dict[str, Any]:
        """Return what decided about a namespace."""
        (one,) = (p for p in self.project["providers"] if p["namespace"] == namespace)
        return dict(one)

    def why_not(self, label: str) -> str:
        """Say why a label was refused."""
        (one,) = (c for c in self.project["candidates"] if c["label"] == label)
        return str(one["reason"])


@dataclass
class Scene:
    """An index, and commands with it."""

    run: Runner
    index: RecordingIndex
    folder: Path
    """The files of the index."""

    def release(self, name: str, variants: Mapping[str, Any], plugins: Mapping[str, Any]) -> None:
        """Build a release with these labels and a plain wheel."""
        document = release_document(variants, providers=plugins, namespaces=[*plugins])
        build_release(self.folder, name, "1.0", document, (None, *variants))

    def offer_gpu(self, *, requires: str = "", trusted: bool = True) -> None:
        """Offer a plugin, and a project with builds for generations of its accelerator."""
        GPU.wheel(self.folder)
        self.acme(requires)
        if trusted:
            self.trust(GPU)

    def acme(self, requires: str = "") -> None:
        """Build a project whose builds are for generations of an accelerator."""
        generations = {f"gen{n}": {"acme": {"generation": [n]}} for n in ("1", "2")}
        provider = {**GPU.provider, **({"requires": [requires]} if requires else {})}
        self.release("fft", {"null": {}, **generations}, {"acme": provider})

    def trust(self, plugin: Plugin, *words: str) -> dict[str, Any]:
        """Trust a plugin as a script would."""
        where = ("--namespace", plugin.namespace, "--plugin-api", plugin.endpoint)
        return self.trusted(plugin.name, *where, *words).object

    def trusted(self, name: str, *words: str, code: int = 0) -> CommandResult:
        """Run ``providers trust`` without a question."""
        place = ("-i", self.index.url, "--yes", "--json")
        return self.run("providers", "trust", name, *place, *words, code=code)

    def explain(self, project: str, *words: str | Path, code: int = 0) -> Decided:
        """Explain the choice of a project of the index."""
        return Decided(self.run, project, "-i", self.index.url, *words, code=code)

    def requested(self, text: str) -> list[str]:
        """Return the requested paths that contain a text."""
        return [request.path for request in self.index.requests if text in request.path]


@pytest.fixture
def scene(run: Runner, tmp_path: Path, own_files: Path) -> Iterator[Scene]:
    """Serve an empty index."""
    del own_files
    (tmp_path / "index").mkdir()
    with RecordingIndex(tmp_path / "index") as index:
        yield Scene(run, index, tmp_path / "index")


class TestDemo:
    """The demo packages and their plugins."""

    @pytest.fixture
    def demo(self, scene: Scene, releases: Path) -> None:
        """Build the demo release from its published index file."""
        place = releases / "dummy-project-flit"
        text = (place / "dummy_project_flit-0.0.1-variants.json").read_text()
        (scene.folder / "dummy_project_flit-0.0.1-variants.json").write_text(text)
        document = json.loads(text)
        for label in (None, *document["variants"]):
            build_wheel(
                scene.folder, "dummy-project-flit", "0.0.1", label=label,
                document=document if label else None,
            )  # fmt: skip

    @pytest.mark.parametrize(
        ("hardware", "expected"),
        [
            (fictional_hw(), ["autochef_r25_sup", "null", None]),
            (
                fictional_hw(humor=True),
                ["dthought_c10_fm", "hal9k_c0_6_nfun", "autochef_r25_sup", "null", None],
            ),
        ],
    )
    @pytest.mark.usefixtures("demo")
    def test_trusted(self, scene: Scene, hardware: Plugin, expected: list[str | None]) -> None:
        """P-15, P-170, P-171: A-40, A-40b, A-53: what the plugins say decides."""
        for plugin in (hardware, fictional_tech()):
            plugin.wheel(scene.folder)
            scene.trust(plugin)
        decided = scene.explain("dummy-project-flit")
        assert decided.fitting == expected
        answer = decided.provider("fictional_hw")
        assert (answer["step"], answer["status"]) == ("plugin", "supported")
        assert answer["plugin"]["name"] == "provider-fictional-hw"
        assert answer["plugin"]["version"] == "1.0.0"

    @pytest.mark.usefixtures("demo")
    def test_not_trusted(self, scene: Scene) -> None:
        """P-14, P-18: A-52: without trust nothing of a plugin is fetched, installed or run."""
        fictional_hw().wheel(scene.folder)
        fictional_tech().wheel(scene.folder)
        decided = scene.explain("dummy-project-flit")
        assert decided.fitting == ["null", None]
        assert decided.provider("fictional_hw")["step"] == "not-trusted"
        assert not scene.requested("fictional")
        assert "asking" not in decided.said.err

    @pytest.mark.usefixtures("demo")
    def test_one_of_two_fails(self, scene: Scene) -> None:
        """P-17: A-54: the other namespace still works, and the reason is visible."""
        broken = fictional_hw()
        files = {**broken.files, "provider_fictional_hw/plugin.py": "raise SystemExit('no')"}
        build_wheel(scene.folder, broken.name, "1.0.0", files=files)
        fictional_tech().wheel(scene.folder)
        for plugin in (broken, fictional_tech()):
            scene.trust(plugin)
        decided = scene.explain("dummy-project-flit")
        assert decided.fitting == ["autochef_r25_sup", "null", None]
        assert decided.provider("fictional_hw")["status"] == "failed"
        assert decided.provider("fictional_tech")["status"] == "supported"
        assert "sys.exit" in decided.why_not("dthought_c10_fm")


def test_the_hint_is_what_to_type(scene: Scene) -> None:
    """P-14: the reason names a command; typed as it is, it makes the plugin trusted."""
    scene.offer_gpu(trusted=False)
    before = scene.explain("fft")
    found = re.search(r"to trust it: `wheelfit (providers trust [^`]*)`", before.why_not("gen2"))
    assert found is not None
    import shlex

    scene.run(*shlex.split(found[1]), "-i", scene.index.url, "--yes")
    assert scene.explain("fft").fitting == ["gen2", "gen1", "null", None]


def test_installed_with_what_it_needs(scene: Scene) -> None:
    """P-38: dependencies are part of what is trusted, and the environment is reused."""
    build_wheel(
        scene.folder, "acme-tables", "3.1", files={"acme_tables.py": "VALUES = ['2', '1']\n"}
    )
    source = GPU.files["acme_provider/plugin.py"].replace("['2', '1']", "acme_tables.VALUES")
    build_wheel(
        scene.folder, GPU.name, "1.2", requires=["acme-tables>=3"],
        files={**GPU.files, "acme_provider/plugin.py": f"import acme_tables\n{source}"},
    )  # fmt: skip
    scene.acme()
    trusted = scene.trust(GPU)
    names = {file["filename"] for file in trusted["files"]}
    assert names == {"acme_provider-1.2-py3-none-any.whl", "acme_tables-3.1-py3-none-any.whl"}
    first = scene.explain("fft")
    assert first.fitting == ["gen2", "gen1", "null", None]
    assert {file["filename"] for file in first.provider("acme")["plugin"]["files"]} == names
    scene.index.requests.clear()
    assert scene.explain("fft").fitting == first.fitting
    assert not scene.requested("acme")


def test_nothing_of_the_environment_is_touched(scene: Scene, tmp_path: Path) -> None:
    """P-15, P-35: the plugin is installed apart; the chosen environment gets what was asked for."""
    scene.offer_gpu()
    target = tmp_path / "target"
    result = scene.run("install", "fft", "-t", target, "-i", scene.index.url, "--json")
    assert [pin["label"] for pin in result.object["install"]] == ["gen2"]
    (plugin,) = result.object["plugins"]
    assert (plugin["namespace"], plugin["name"], plugin["version"]) == (
        "acme",
        "acme-provider",
        "1.2",
    )
    assert not [name for name in tree(target) if "acme" in name]


def test_offline_once_it_is_there(scene: Scene) -> None:
    """P-38: what is trusted by its bytes needs no source when it is installed."""
    scene.offer_gpu()
    scene.explain("fft")
    decided = scene.explain("fft", "--offline")
    assert decided.fitting == ["gen2", "gen1", "null", None]


def test_offline_and_not_there(scene: Scene) -> None:
    """P-17: a plugin that cannot be fetched is a reason and no error."""
    scene.offer_gpu(trusted=False)
    scene.explain("fft")  # so that its own page is kept
    scene.trust(GPU)
    (scene.folder / "acme_provider-1.2-py3-none-any.whl").unlink()
    decided = Decided(scene.run, "fft", "-f", scene.folder, "--no-index")
    assert decided.fitting == ["null", None]
    assert decided.provider("acme")["status"] == "failed"
    assert "not installed" in decided.why_not("gen2")


class TestWhatChanges:
    """What the index has is not what was trusted."""

    def test_another_hash(self, scene: Scene) -> None:
        """P-19, P-38: a file that was replaced is not trusted any more, and never fetched."""
        scene.offer_gpu()
        evil = simple_plugin("acme", {"generation": ["3"]}, version="1.2")
        evil.wheel(scene.folder)
        scene.index.requests.clear()
        decided = Decided(scene.run, "fft", "-f", scene.folder, "-i", scene.index.url)
        assert decided.fitting == ["null", None]
        assert "no longer trusted" in decided.why_not("gen2")

    def test_a_page_that_lies(self, scene: Scene) -> None:
        """P-38: what was fetched is held against the trusted hash, whatever the page says."""
        scene.offer_gpu()
        content = simple_plugin("acme", {"generation": ["3"]}, version="1.2").wheel(
            scene.folder / "evil"
        )
        scene.index.faults.hashes = scene.index.faults.sizes = False
        scene.index.faults.content["acme_provider-1.2-py3-none-any.whl"] = content.read_bytes()
        decided = scene.explain("fft", "--cache-dir", scene.folder.parent / "fresh")
        assert decided.fitting == ["null", None]
        assert "no longer trusted" in decided.why_not("gen2")

    def test_a_newer_version(self, scene: Scene) -> None:
        """P-18: a newer release within the range is not trusted by itself."""
        scene.offer_gpu(requires="acme-provider>=1,<2")
        simple_plugin("acme", {"generation": ["3"]}, version="1.9").wheel(scene.folder)
        decided = scene.explain("fft")
        assert decided.provider("acme")["plugin"]["version"] == "1.2"

    def test_a_version_that_is_not_trusted(self, scene: Scene) -> None:
        """P-14: what a wheel requires must be among what is trusted."""
        scene.offer_gpu(requires="acme-provider>=2")
        decided = scene.explain("fft")
        assert decided.provider("acme")["step"] == "not-trusted"
        assert "trusted only in version 1.2" in decided.why_not("gen2")


class TestHowItIsInstalled:
    """Only plain wheels count, and what cannot be had is refused when trust is given."""

    def test_source_distribution_only(self, scene: Scene) -> None:
        """P-33, P-38: a source distribution is never built for a plugin."""
        (scene.folder / "acme_provider-1.2.tar.gz").write_bytes(b"never opened")
        result = scene.trusted("acme-provider", code=3)
        assert result.error["code"] == "source-build-not-allowed"
        assert "--allow-source" not in result.error["hint"]

    def test_variant_wheel_only(self, scene: Scene) -> None:
        """P-33: variant wheels are not used for plugins."""
        document = release_document({"x": {"acme": {"generation": ["1"]}}}, providers={})
        build_wheel(scene.folder, "acme-provider", "1.2", label="x", document=document)
        result = scene.trusted("acme-provider", code=3)
        assert "variant wheels are switched off" in json.dumps(result.error)

    def test_conflict(self, scene: Scene) -> None:
        """P-38: a plugin whose needs contradict each other cannot be trusted."""
        build_wheel(scene.folder, "acme-provider", "1.2", requires=["dep>=2", "dep<2"])
        build_wheel(scene.folder, "dep", "1.0")
        build_wheel(scene.folder, "dep", "2.0")
        result = scene.trusted("acme-provider", code=3)
        assert result.error["code"] == "no-solution"

    def test_yanked(self, scene: Scene, own_files: Path) -> None:
        """P-19: what its publisher took back is trusted with a warning only."""
        GPU.wheel(scene.folder)
        scene.index.faults.yanked["acme_provider-1.2-py3-none-any.whl"] = "leaks"
        result = scene.trusted("acme-provider==1.2")
        assert any("yanked by its publisher: leaks" in w for w in result.object["warnings"])
        assert own_files.exists()

    def test_a_name_that_nobody_has(self, scene: Scene) -> None:
        """P-19: names of plugins may be free for anybody to take; the error says so."""
        result = scene.trusted("tpu-variant-provider", code=3)
        assert result.error["code"] == "project-not-found"
        assert "anybody could take" in result.error["note"]

    def test_a_name_that_somebody_took(self, scene: Scene) -> None:
        """P-19: an unregistered name that exists causes a warning."""
        build_wheel(scene.folder, "tpu-variant-provider", "9")
        result = scene.trusted("tpu-variant-provider")
        assert any("was not registered" in warning for warning in result.object["warnings"])


class TestRefusals:
    """Whoever may forbid something is obeyed, and named."""

    @pytest.fixture
    def ready(self, scene: Scene) -> None:
        """Trust a plugin that a project needs."""
        scene.offer_gpu()

    @pytest.fixture
    def policy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Name a policy."""
        path = tmp_path / "policy.toml"
        monkeypatch.setenv("WHEELFIT_POLICY_FILE", str(path))
        return path

    @pytest.mark.usefixtures("ready")
    @pytest.mark.parametrize("words", [["--no-plugins"], ["--for", "cpu-x86_64-v3"]])
    def test_no_plugins(self, scene: Scene, tmp_path: Path, words: list[str]) -> None:
        """P-14: no plugin is asked when the user says so, nor about another machine."""
        if words[0] == "--for":
            scene.run("probe", "-o", tmp_path / "host.toml", "--no-plugins")
            words = ["--for", str(tmp_path / "host.toml"), "--allow-incomplete"]
        decided = scene.explain("fft", *words)
        assert decided.fitting == ["null", None]
        assert not (tmp_path / "cache" / "plugins").exists()

    @pytest.mark.usefixtures("ready")
    def test_never(self, scene: Scene, policy: Path) -> None:
        """P-18: a policy that forbids plugins counts more than trust, and says who it is."""
        policy.write_text('version = 1\nplugins = "never"\n')
        decided = scene.explain("fft")
        assert decided.fitting == ["null", None]
        assert str(policy) in decided.why_not("gen2")
        assert 'plugins = "never"' in decided.why_not("gen2")
        result = scene.trusted(GPU.name, code=7)
        assert result.error["where"] == str(policy)

    @pytest.mark.usefixtures("ready")
    def test_listed(self, scene: Scene, policy: Path, own_files: Path) -> None:
        """P-18: with a list, trusted files count only if the list has them."""
        policy.write_text('version = 1\nplugins = "listed"\n')
        refused = scene.explain("fft")
        assert refused.fitting == ["null", None]
        assert f"not in the list of {policy}" in refused.why_not("gen2")
        scene.trusted(GPU.name, code=7)
        entry = own_files.read_text().partition("[[trusted]]")[2]
        policy.write_text(f'version = 1\nplugins = "listed"\n\n[[trusted]]{entry}')
        assert scene.explain("fft").fitting == ["gen2", "gen1", "null", None]

    @pytest.mark.usefixtures("ready")
    def test_namespace_off(self, scene: Scene, policy: Path) -> None:
        """P-10: a namespace that a policy switches off cannot be enabled."""
        policy.write_text('version = 1\ndisable-provider = ["acme"]\n')
        decided = scene.explain("fft", "--enable-provider", "acme")
        assert decided.provider("acme")["step"] == "disabled"
        assert str(policy) in decided.why_not("gen2")
        result = scene.trusted(GPU.name, "--namespace", "acme", code=7)
        assert result.error["where"] == str(policy)
        result = scene.run("providers", "enable", "acme", "--json", code=7)
        assert result.error["where"] == str(policy)

    def test_overrides(self, scene: Scene, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """P-73: a policy can forbid that variables replace what is detected."""
        monkeypatch.setenv("WHEELFIT_OVERRIDE_TPU_PRESENT", "true")
        policy.write_text("version = 1\n")
        before = scene.run("probe", "tpu", "--json").object["namespaces"]["tpu"]["features"]
        assert before == [{"name": "present", "values": ["true"]}]
        policy.write_text("version = 1\nno-env-override = true\n")
        after = scene.run("probe", "tpu", "-v", "--json")
        assert after.object["overrides"] == []
        assert f"is ignored ({policy})" in after.err

    def test_trust_all(self, scene: Scene) -> None:
        """P-18: everything can be trusted for one command, with a warning and no trace."""
        scene.offer_gpu(trusted=False)
        decided = scene.explain("fft", "--trust-all-plugins")
        assert decided.fitting == ["gen2", "gen1", "null", None]
        assert "code of any package that some wheel names" in decided.said.err
        assert scene.explain("fft").fitting == ["null", None]

    def test_trust_all_is_refused(self, scene: Scene, policy: Path) -> None:
        """P-18: a policy can forbid that; the command ends with 7 and names file and key."""
        policy.write_text("version = 1\nforbid-trust-all = true\n")
        result = scene.run(
            "explain", "x", "-i", scene.index.url, "--trust-all-plugins", "--json", code=7
        )
        assert result.error["where"] == str(policy)
        assert "forbid-trust-all" in result.error["note"]

    @pytest.mark.parametrize("text", ["plugins = ", 'version = 1\nplugin = "never"\n', None])
    def test_unusable_policy(self, scene: Scene, policy: Path, text: str | None) -> None:
        """P-18: a policy that cannot be understood is never passed over."""
        if text is not None:
            policy.write_text(text)
        for words in (["explain", "x", "-i", scene.index.url], ["probe"], ["providers", "list"]):
            result = scene.run(*words, "--json", code=7)
            assert result.error["code"] == "unusable-policy"
            assert str(policy) in result.error["where"]

    @pytest.mark.usefixtures("own_files")
    def test_nobody_agrees(self, scene: Scene, own_files: Path) -> None:
        """P-18: without a terminal and without --yes nothing is trusted."""
        GPU.wheel(scene.folder)
        result = scene.run("providers", "trust", GPU.name, "-i", scene.index.url, code=7)
        assert "no-consent" in result.err
        assert "sha256" in result.err  # what would be trusted is shown all the same
        assert not own_files.exists()


HOSTILE = ["hangs", "segfaults", "leaves", "raises_escapes", "answers_a_gigabyte"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_plugins(scene: Scene, kind: str) -> None:
    """P-17, P-37: A-54: whatever one trusted plugin does, the other one still answers.

    The exit code is that of the choice that remains, and the reason is there.
    """
    bad = hostile(kind)
    bad.wheel(scene.folder)
    OTHER.wheel(scene.folder)
    variants = {
        "null": {},
        "a": {"other": {"kind": ["a"]}},
        "h": {"hostile": {"fine": ["yes"]}},
    }
    scene.release("pair", variants, {"hostile": bad.provider, "other": OTHER.provider})
    scene.trust(bad)
    scene.trust(OTHER)
    # Long enough for the other one on a busy machine.
    seconds = "4" if kind == "hangs" else "60"
    started = time.monotonic()
    decided = scene.explain("pair", "--plugin-timeout", seconds)
    assert time.monotonic() - started < 300
    assert decided.fitting == ["a", "null", None]
    assert decided.provider("hostile")["status"] == "failed"
    assert decided.provider("other")["status"] == "supported"
    assert decided.why_not("h")
    assert "\x1b" not in decided.said.out + decided.said.err


def test_nothing_is_left(scene: Scene) -> None:
    """P-17: where a failing plugin leaves no wheel, the exit code is that of no wheel."""
    bad = hostile("leaves")
    bad.wheel(scene.folder)
    document = release_document(
        {"h": {"hostile": {"fine": ["yes"]}}}, providers={"hostile": bad.provider}
    )
    build_wheel(scene.folder, "only", "1.0", label="h", document=document)
    scene.trust(bad)
    decided = scene.explain("only", code=3)
    assert decided.fitting == []
    assert "hostile" in decided.why_not("h")
    result = scene.run(
        "install", "only", "-i", scene.index.url, "-t", scene.folder / "x", "--json", code=3
    )
    assert result.error["code"] == "no-compatible-wheel"


def test_what_is_installed_is_not_imported(scene: Scene, tmp_path: Path) -> None:
    """P-18: A-52: a plugin in the chosen environment gets no attention, trusted or not."""
    ran = tmp_path / "ran"
    plugin = "acme_provider/plugin.py"
    hurt = {**GPU.files, plugin: f"open({str(ran)!r}, 'w')\n{GPU.files[plugin]}"}
    build_wheel(tmp_path / "hurt", GPU.name, "1.2", files=hurt)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    python = tmp_path / "v" / "bin" / "python"
    scene.run("install", GPU.name, "--python", python, "--no-index", "-f", tmp_path / "hurt")
    scene.offer_gpu(trusted=False)
    words = ["fft", "-i", scene.index.url, "--python", str(python)]
    assert Decided(scene.run, *words).fitting == ["null", None]
    scene.trust(GPU)
    assert Decided(scene.run, *words).fitting == ["gen2", "gen1", "null", None]
    assert not ran.exists()


def test_noise_is_tolerated(scene: Scene) -> None:
    """P-36: what a plugin prints does not disturb its answer."""
    source = GPU.files["acme_provider/plugin.py"]
    noisy = {**GPU.files, "acme_provider/plugin.py": f"print('[]\\n' * 1000)\n{source}"}
    build_wheel(scene.folder, GPU.name, "1.2", files=noisy)
    scene.acme()
    scene.trust(GPU)
    assert scene.explain("fft").fitting == ["gen2", "gen1", "null", None]


def test_asked_once(scene: Scene) -> None:
    """P-22: a plugin is asked once, however many packages need it."""
    scene.offer_gpu(trusted=False)
    variants = {"gen2": {"acme": {"generation": ["2"]}}}
    scene.release("blas", variants, {"acme": GPU.provider})
    scene.trust(GPU)
    result = scene.run(
        "explain", "fft", "blas", "-i", scene.index.url, "--trust-all-plugins", "--json"
    )
    assert [project["chosen"]["label"] for project in result.object["projects"]] == ["gen2", "gen2"]
    # Every asking by --trust-all-plugins is told.
    assert result.err.count("every plugin is trusted") == 1
    assert result.err.count("asking plugin acme-provider 1.2 about acme") == 1


def test_probe_asks_too(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-15, P-21: probe shows what trusted plugins say, with distribution and hash."""
    GPU.wheel(scene.folder)
    monkeypatch.setenv("PIP_INDEX_URL", scene.index.url)  # `probe` has no option for an index
    trusted = scene.trust(GPU)
    said = scene.run("probe", "acme", "--json").object["namespaces"]["acme"]
    assert said["features"] == [{"name": "generation", "values": ["2", "1"]}]
    (file,) = said["plugin"]["files"]
    assert file["sha256"] == trusted["files"][0]["sha256"]
    seen = {one["source"]: one["value"] for one in said["evidence"]}
    assert seen[file["filename"]] == f"sha256 {file['sha256']} from {scene.index.url}"
    assert "answered in" in seen[GPU.endpoint]
    assert {"confined by", "not confined"} & seen.keys()
    scene.acme()
    host = scene.folder.parent / "host.toml"
    scene.run("probe", "-o", host)
    decided = scene.explain("fft", "--for", host)
    assert decided.fitting == ["gen2", "gen1", "null", None]  # P-44: what it said can be carried
    assert decided.provider("acme")["step"] == "user-list"
    off = scene.run("probe", "acme", "--no-plugins", "--json").object["namespaces"]["acme"]
    assert off["status"] == "unknown"


def test_untrusted_again(scene: Scene, tmp_path: Path, own_files: Path) -> None:
    """P-18: trust can be taken back; the environment goes with it."""
    scene.offer_gpu()
    scene.explain("fft")
    report = scene.run("providers", "untrust", GPU.name, "--json").object
    assert len(report["removed"]) == 1
    assert not Path(report["removed"][0]).exists()
    assert "acme" not in own_files.read_text()
    assert scene.explain("fft").fitting == ["null", None]
    again = scene.run("providers", "untrust", GPU.name, "--json", code=1)
    assert again.error["code"] == "not-installed"
    assert (tmp_path / "cache" / "plugins").is_dir()


def test_what_is_replaced_goes(scene: Scene, tmp_path: Path) -> None:
    """P-38: environments of files that are not trusted any more do not stay."""
    GPU.wheel(scene.folder)
    scene.acme("acme-provider>=1")
    scene.trust(GPU)
    scene.explain("fft")
    before = {path.parent for path in (tmp_path / "cache/plugins").glob("*/wheelfit-plugin.json")}
    assert len(before) == 1
    simple_plugin("acme", {"generation": ["1"]}, version="1.3").wheel(scene.folder)
    scene.trust(GPU)
    assert not any(one.exists() for one in before)
    assert scene.explain("fft").fitting == ["gen1", "null", None]


def test_interrupted(scene: Scene, tmp_path: Path, own_files: Path) -> None:
    """P-37: Control-C while a plugin hangs ends the command and the plugin."""
    bad = hostile("hangs")
    bad.wheel(scene.folder)
    scene.release("pair", {"h": {"hostile": {"x": ["y"]}}}, {"hostile": bad.provider})
    words = [
        "explain", "pair", "-i", scene.index.url, "--plugin-timeout", "120", "--trust-all-plugins",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "wheelfit", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WHEELFIT_PROVIDERS_FILE": str(own_files)},
    )
    with process:
        place = tmp_path / "cache" / "plugins"
        until(lambda: [*place.glob("*/wheelfit-plugin.json")])
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


def test_the_contract(scene: Scene, tmp_path: Path) -> None:
    """P-21: every object about plugins is as documented."""
    scene.offer_gpu(trusted=False)
    scene.trust(GPU)
    for words in (["list"], ["show", "acme"], ["show", "nvidia"], ["show", "openmp"]):
        scene.run("providers", *words, "--json")
    scene.run("probe", "acme", "--json")
    scene.run("explain", "fft", "-i", scene.index.url, "--json")
    words = ["install", "fft", "-i", scene.index.url, "-t", str(tmp_path / "target"), "--json"]
    scene.run(*words)
    (trusted,) = scene.run("providers", "list", "--json").object["trusted"]
    assert trusted["refusal"] is None
    assert len(trusted["environments"]) == 1
    for words in (["enable", "acme"], ["disable", "acme"], ["untrust", GPU.name]):
        scene.run("providers", *words, "--json")


@pytest.mark.network
@pytest.mark.usefixtures("registry")
class TestPublished:
    """Plugins as they are published, under namespaces in which nothing stands in for them."""

    @pytest.mark.parametrize(
        ("name", "endpoint", "feature"),
        [
            ("provider-variant-x86-64", "provider_variant_x86_64.plugin:X8664Plugin", "level"),
            (
                "ascend-variant-provider",
                "ascend_variant_provider.plugin:AscendVariantPlugin",
                None,
            ),
        ],
    )
    def test_asked(
        self,
        scene: Scene,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        endpoint: str,
        feature: str | None,
    ) -> None:
        """P-15, P-36: a real plugin is installed and asked, whatever it prints."""
        monkeypatch.delenv("PIP_CONFIG_FILE")
        report = scene.run(
            "providers", "trust", name, "--namespace", "published", "--plugin-api", endpoint,
            "--yes", "--json",
        ).object  # fmt: skip
        answer = scene.run("probe", "published", "--json").object["namespaces"]["published"]
        assert answer["status"] in {"supported", "nothing"}
        assert answer["plugin"]["name"] == name
        features = {feature["name"]: feature["values"] for feature in answer["features"]}
        if feature is not None:
            assert features[feature]
        assert any("wheelfit emulates" in warning for warning in report["warnings"])
