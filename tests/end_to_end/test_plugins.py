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
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner, tree
from end_to_end.test_contract import check
from hostile.plugins import hostile

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.plugins import Plugin, fictional_hw, fictional_tech, simple_plugin
from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = pytest.mark.usefixtures("bare_environment")

GPU = simple_plugin("acme", {"generation": ["2", "1"]}, version="1.2")
OTHER = simple_plugin("other", {"kind": ["a"]})


@pytest.fixture(autouse=True)
def own_files(bare_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache and a file of trusted plugins; return the file."""
    del bare_environment
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path / "cache"))
    trust = tmp_path / "settings" / "providers.toml"
    monkeypatch.setenv("WHEELFIT_PROVIDERS_FILE", str(trust))
    return trust


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Return what runs a command."""
    return Runner(capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of what the index has."""
    place = tmp_path / "index"
    place.mkdir()
    return place


@pytest.fixture
def index(folder: Path) -> Iterator[RecordingIndex]:
    """Serve the folder."""
    with RecordingIndex(folder) as server:
        yield server


def release(
    folder: Path, name: str, variants: Mapping[str, Any], plugins: Mapping[str, Any]
) -> None:
    """Build a release with these labels and a plain wheel."""
    document = release_document(variants, providers=plugins, namespaces=[*plugins])
    for label in (None, *variants):
        build_wheel(folder, name, "1.0", label=label, document=document if label else None)
    (folder / f"{name.replace('-', '_')}-1.0-variants.json").write_text(json.dumps(document))


def acme(folder: Path, provider: Mapping[str, Any] = GPU.provider) -> None:
    """Build a project whose builds are for generations of an accelerator."""
    variants = {
        "null": {},
        "gen1": {"acme": {"generation": ["1"]}},
        "gen2": {"acme": {"generation": ["2"]}},
    }
    release(folder, "fft", variants, {"acme": provider})


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


def trust(
    run: Runner, plugin: Plugin, index: RecordingIndex, *words: str, endpoint: bool = True
) -> dict[str, Any]:
    """Trust a plugin as a script would."""
    exact = ["--plugin-api", plugin.endpoint] if endpoint else []
    result = run(
        "providers", "trust", plugin.name, "--namespace", plugin.namespace, *exact,
        "-i", index.url, "--yes", "--json", *words,
    )  # fmt: skip
    return result.object


class TestDemo:
    """The demo packages and their plugins."""

    @pytest.fixture
    def demo(self, folder: Path, releases: Path) -> None:
        """Build the demo release from its published index file."""
        place = releases / "dummy-project-flit"
        text = (place / "dummy_project_flit-0.0.1-variants.json").read_text()
        (folder / "dummy_project_flit-0.0.1-variants.json").write_text(text)
        document = json.loads(text)
        for label in (None, *document["variants"]):
            build_wheel(
                folder, "dummy-project-flit", "0.0.1", label=label,
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
    def test_trusted(
        self,
        run: Runner,
        index: RecordingIndex,
        folder: Path,
        hardware: Plugin,
        expected: list[str | None],
    ) -> None:
        """P-15, P-170, P-171: A-40, A-40b, A-53: what the plugins say decides."""
        for plugin in (hardware, fictional_tech()):
            plugin.wheel(folder)
            trust(run, plugin, index)
        decided = Decided(run, "dummy-project-flit", "-i", index.url)
        assert decided.fitting == expected
        answer = decided.provider("fictional_hw")
        assert (answer["step"], answer["status"]) == ("plugin", "supported")
        assert answer["plugin"]["name"] == "provider-fictional-hw"
        assert answer["plugin"]["version"] == "1.0.0"

    @pytest.mark.usefixtures("demo")
    def test_not_trusted(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """P-14, P-18: A-52: without trust nothing of a plugin is fetched, installed or run."""
        fictional_hw().wheel(folder)
        fictional_tech().wheel(folder)
        decided = Decided(run, "dummy-project-flit", "-i", index.url)
        assert decided.fitting == ["null", None]
        assert decided.provider("fictional_hw")["step"] == "not-trusted"
        assert not [request for request in index.requests if "fictional" in request.path]
        assert "asking" not in decided.said.err

    @pytest.mark.usefixtures("demo")
    def test_one_of_two_fails(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """P-17: A-54: the other namespace still works, and the reason is visible."""
        broken = fictional_hw()
        files = {**broken.files, "provider_fictional_hw/plugin.py": "raise SystemExit('no')"}
        build_wheel(folder, broken.name, "1.0.0", files=files)
        fictional_tech().wheel(folder)
        for plugin in (broken, fictional_tech()):
            trust(run, plugin, index)
        decided = Decided(run, "dummy-project-flit", "-i", index.url)
        assert decided.fitting == ["autochef_r25_sup", "null", None]
        assert decided.provider("fictional_hw")["status"] == "failed"
        assert decided.provider("fictional_tech")["status"] == "supported"
        assert "sys.exit" in decided.why_not("dthought_c10_fm")


def test_the_hint_is_what_to_type(run: Runner, index: RecordingIndex, folder: Path) -> None:
    """P-14: the reason names a command; typed as it is, it makes the plugin trusted."""
    GPU.wheel(folder)
    acme(folder)
    before = Decided(run, "fft", "-i", index.url)
    found = re.search(r"to trust it: `wheelfit (providers trust [^`]*)`", before.why_not("gen2"))
    assert found is not None
    import shlex

    run(*shlex.split(found[1]), "-i", index.url, "--yes")
    assert Decided(run, "fft", "-i", index.url).fitting == ["gen2", "gen1", "null", None]


def test_installed_with_what_it_needs(run: Runner, index: RecordingIndex, folder: Path) -> None:
    """P-38: dependencies are part of what is trusted, and the environment is reused."""
    build_wheel(folder, "acme-tables", "3.1", files={"acme_tables.py": "VALUES = ['2', '1']\n"})
    source = GPU.files["acme_provider/plugin.py"].replace("['2', '1']", "acme_tables.VALUES")
    build_wheel(
        folder, GPU.name, "1.2", requires=["acme-tables>=3"],
        files={**GPU.files, "acme_provider/plugin.py": f"import acme_tables\n{source}"},
    )  # fmt: skip
    acme(folder)
    trusted = trust(run, GPU, index)
    names = {file["filename"] for file in trusted["files"]}
    assert names == {"acme_provider-1.2-py3-none-any.whl", "acme_tables-3.1-py3-none-any.whl"}
    first = Decided(run, "fft", "-i", index.url)
    assert first.fitting == ["gen2", "gen1", "null", None]
    assert {file["filename"] for file in first.provider("acme")["plugin"]["files"]} == names
    index.requests.clear()
    assert Decided(run, "fft", "-i", index.url).fitting == first.fitting
    assert not [request for request in index.requests if "acme" in request.path]


def test_nothing_of_the_environment_is_touched(
    run: Runner, index: RecordingIndex, folder: Path, tmp_path: Path
) -> None:
    """P-15, P-35: the plugin is installed apart; the chosen environment gets what was asked for."""
    GPU.wheel(folder)
    acme(folder)
    trust(run, GPU, index)
    target = tmp_path / "target"
    result = run("install", "fft", "-t", target, "-i", index.url, "--json")
    assert [pin["label"] for pin in result.object["install"]] == ["gen2"]
    (plugin,) = result.object["plugins"]
    assert (plugin["namespace"], plugin["name"], plugin["version"]) == (
        "acme",
        "acme-provider",
        "1.2",
    )
    assert not [name for name in tree(target) if "acme" in name]


def test_offline_once_it_is_there(run: Runner, index: RecordingIndex, folder: Path) -> None:
    """P-38: what is trusted by its bytes needs no source when it is installed."""
    GPU.wheel(folder)
    acme(folder)
    trust(run, GPU, index)
    Decided(run, "fft", "-i", index.url)
    decided = Decided(run, "fft", "-i", index.url, "--offline")
    assert decided.fitting == ["gen2", "gen1", "null", None]


def test_offline_and_not_there(run: Runner, index: RecordingIndex, folder: Path) -> None:
    """P-17: a plugin that cannot be fetched is a reason and no error."""
    GPU.wheel(folder)
    acme(folder)
    Decided(run, "fft", "-i", index.url)  # so that its own page is kept
    trust(run, GPU, index)
    (folder / "acme_provider-1.2-py3-none-any.whl").unlink()
    decided = Decided(run, "fft", "-f", folder, "--no-index")
    assert decided.fitting == ["null", None]
    assert decided.provider("acme")["status"] == "failed"
    assert "not installed" in decided.why_not("gen2")


class TestWhatChanges:
    """What the index has is not what was trusted."""

    def test_another_hash(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """P-19, P-38: a file that was replaced is not trusted any more, and never fetched."""
        GPU.wheel(folder)
        acme(folder)
        trust(run, GPU, index)
        evil = simple_plugin("acme", {"generation": ["3"]}, version="1.2")
        evil.wheel(folder)
        index.requests.clear()
        decided = Decided(run, "fft", "-f", folder, "-i", index.url)
        assert decided.fitting == ["null", None]
        assert "no longer trusted" in decided.why_not("gen2")

    def test_a_page_that_lies(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """P-38: what was fetched is held against the trusted hash, whatever the page says."""
        GPU.wheel(folder)
        acme(folder)
        trust(run, GPU, index)
        content = simple_plugin("acme", {"generation": ["3"]}, version="1.2").wheel(folder / "evil")
        index.faults.hashes = index.faults.sizes = False
        index.faults.content["acme_provider-1.2-py3-none-any.whl"] = content.read_bytes()
        decided = Decided(run, "fft", "-i", index.url, "--cache-dir", folder.parent / "fresh")
        assert decided.fitting == ["null", None]
        assert "no longer trusted" in decided.why_not("gen2")

    def test_a_newer_version(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """P-18: a newer release within the range is not trusted by itself."""
        GPU.wheel(folder)
        acme(folder, {**GPU.provider, "requires": ["acme-provider>=1,<2"]})
        trust(run, GPU, index)
        simple_plugin("acme", {"generation": ["3"]}, version="1.9").wheel(folder)
        decided = Decided(run, "fft", "-i", index.url)
        assert decided.provider("acme")["plugin"]["version"] == "1.2"

    def test_a_version_that_is_not_trusted(
        self, run: Runner, index: RecordingIndex, folder: Path
    ) -> None:
        """P-14: what a wheel requires must be among what is trusted."""
        GPU.wheel(folder)
        acme(folder, {**GPU.provider, "requires": ["acme-provider>=2"]})
        trust(run, GPU, index)
        decided = Decided(run, "fft", "-i", index.url)
        assert decided.provider("acme")["step"] == "not-trusted"
        assert "trusted only in version 1.2" in decided.why_not("gen2")


class TestHowItIsInstalled:
    """Only plain wheels count, and what cannot be had is refused when trust is given."""

    def test_source_distribution_only(
        self, run: Runner, index: RecordingIndex, folder: Path
    ) -> None:
        """P-33, P-38: a source distribution is never built for a plugin."""
        (folder / "acme_provider-1.2.tar.gz").write_bytes(b"never opened")
        result = run(
            "providers", "trust", "acme-provider", "-i", index.url, "--yes", "--json", code=3
        )
        assert result.error["code"] == "source-build-not-allowed"
        assert "--allow-source" not in result.error["hint"]

    def test_variant_wheel_only(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """P-33: variant wheels are not used for plugins."""
        document = release_document({"x": {"acme": {"generation": ["1"]}}}, providers={})
        build_wheel(folder, "acme-provider", "1.2", label="x", document=document)
        result = run(
            "providers", "trust", "acme-provider", "-i", index.url, "--yes", "--json", code=3
        )
        assert "variant wheels are switched off" in json.dumps(result.error)

    def test_conflict(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """P-38: a plugin whose needs contradict each other cannot be trusted."""
        build_wheel(folder, "acme-provider", "1.2", requires=["dep>=2", "dep<2"])
        build_wheel(folder, "dep", "1.0")
        build_wheel(folder, "dep", "2.0")
        result = run(
            "providers", "trust", "acme-provider", "-i", index.url, "--yes", "--json", code=3
        )
        assert result.error["code"] == "no-solution"

    def test_yanked(
        self, run: Runner, index: RecordingIndex, folder: Path, own_files: Path
    ) -> None:
        """P-19: what its publisher took back is trusted with a warning only."""
        GPU.wheel(folder)
        index.faults.yanked["acme_provider-1.2-py3-none-any.whl"] = "leaks"
        result = run("providers", "trust", "acme-provider==1.2", "-i", index.url, "--yes", "--json")
        assert any("yanked by its publisher: leaks" in w for w in result.object["warnings"])
        assert own_files.exists()

    def test_a_name_that_nobody_has(self, run: Runner, index: RecordingIndex) -> None:
        """P-19: names of plugins may be free for anybody to take; the error says so."""
        result = run(
            "providers", "trust", "tpu-variant-provider", "-i", index.url, "--yes", "--json", code=3
        )
        assert result.error["code"] == "project-not-found"
        assert "anybody could take" in result.error["note"]

    def test_a_name_that_somebody_took(
        self, run: Runner, index: RecordingIndex, folder: Path
    ) -> None:
        """P-19: an unregistered name that exists, and one that resembles another, warn."""
        build_wheel(folder, "tpu-variant-provider", "9")
        build_wheel(folder, "nvidia-varlant-provider", "9")
        for name, words in (
            ("tpu-variant-provider", "was not registered"),
            ("nvidia-varlant-provider", "resembles nvidia-variant-provider"),
        ):
            result = run("providers", "trust", name, "-i", index.url, "--yes", "--json")
            assert any(words in warning for warning in result.object["warnings"])


class TestRefusals:
    """Whoever may forbid something is obeyed, and named."""

    @pytest.fixture
    def ready(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """Trust a plugin that a project needs."""
        GPU.wheel(folder)
        acme(folder)
        trust(run, GPU, index)

    @pytest.fixture
    def policy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Name a policy."""
        path = tmp_path / "policy.toml"
        monkeypatch.setenv("WHEELFIT_POLICY_FILE", str(path))
        return path

    @pytest.mark.usefixtures("ready")
    @pytest.mark.parametrize("words", [["--no-plugins"], ["--for", "cpu-x86_64-v3"]])
    def test_no_plugins(
        self, run: Runner, index: RecordingIndex, tmp_path: Path, words: list[str]
    ) -> None:
        """P-14: no plugin is asked when the user says so, nor about another machine."""
        if words[0] == "--for":
            run("probe", "-o", tmp_path / "host.toml", "--no-plugins")
            words = ["--for", str(tmp_path / "host.toml"), "--allow-incomplete"]
        decided = Decided(run, "fft", "-i", index.url, *words)
        assert decided.fitting == ["null", None]
        assert not (tmp_path / "cache" / "plugins").exists()

    @pytest.mark.usefixtures("ready")
    def test_never(self, run: Runner, index: RecordingIndex, policy: Path) -> None:
        """P-18: a policy that forbids plugins counts more than trust, and says who it is."""
        policy.write_text('version = 1\nplugins = "never"\n')
        decided = Decided(run, "fft", "-i", index.url)
        assert decided.fitting == ["null", None]
        assert str(policy) in decided.why_not("gen2")
        assert 'plugins = "never"' in decided.why_not("gen2")
        result = run("providers", "trust", GPU.name, "-i", index.url, "--yes", "--json", code=7)
        assert result.error["where"] == str(policy)

    @pytest.mark.usefixtures("ready")
    def test_listed(
        self, run: Runner, index: RecordingIndex, policy: Path, own_files: Path
    ) -> None:
        """P-18: with a list, trusted files count only if the list has them."""
        policy.write_text('version = 1\nplugins = "listed"\n')
        refused = Decided(run, "fft", "-i", index.url)
        assert refused.fitting == ["null", None]
        assert f"not in the list of {policy}" in refused.why_not("gen2")
        run("providers", "trust", GPU.name, "-i", index.url, "--yes", code=7)
        entry = own_files.read_text().partition("[[trusted]]")[2]
        policy.write_text(f'version = 1\nplugins = "listed"\n\n[[trusted]]{entry}')
        assert Decided(run, "fft", "-i", index.url).fitting == ["gen2", "gen1", "null", None]

    @pytest.mark.usefixtures("ready")
    def test_namespace_off(self, run: Runner, index: RecordingIndex, policy: Path) -> None:
        """P-10: a namespace that a policy switches off cannot be enabled."""
        policy.write_text('version = 1\ndisable-provider = ["acme"]\n')
        decided = Decided(run, "fft", "-i", index.url, "--enable-provider", "acme")
        assert decided.provider("acme")["step"] == "disabled"
        assert str(policy) in decided.why_not("gen2")
        words = ["providers", "trust", GPU.name, "--namespace", "acme", "-i", index.url, "--yes"]
        assert run(*words, "--json", code=7).error["where"] == str(policy)
        result = run("providers", "enable", "acme", "--json", code=7)
        assert result.error["where"] == str(policy)

    def test_overrides(self, run: Runner, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """P-73: a policy can forbid that variables replace what is detected."""
        monkeypatch.setenv("WHEELFIT_OVERRIDE_TPU_PRESENT", "true")
        policy.write_text("version = 1\n")
        before = run("probe", "tpu", "--json").object["namespaces"]["tpu"]["features"]
        assert before == [{"name": "present", "values": ["true"]}]
        policy.write_text("version = 1\nno-env-override = true\n")
        after = run("probe", "tpu", "-v", "--json")
        assert after.object["overrides"] == []
        assert f"is ignored ({policy})" in after.err

    def test_trust_all(self, run: Runner, index: RecordingIndex, folder: Path) -> None:
        """P-18: everything can be trusted for one command, with a warning and no trace."""
        GPU.wheel(folder)
        acme(folder)
        decided = Decided(run, "fft", "-i", index.url, "--trust-all-plugins")
        assert decided.fitting == ["gen2", "gen1", "null", None]
        assert "code of any package that some wheel names" in decided.said.err
        assert Decided(run, "fft", "-i", index.url).fitting == ["null", None]

    def test_trust_all_is_refused(self, run: Runner, index: RecordingIndex, policy: Path) -> None:
        """P-18: a policy can forbid that; the command ends with 7 and names file and key."""
        policy.write_text("version = 1\nforbid-trust-all = true\n")
        result = run("explain", "x", "-i", index.url, "--trust-all-plugins", "--json", code=7)
        assert result.error["where"] == str(policy)
        assert "forbid-trust-all" in result.error["note"]

    @pytest.mark.parametrize("text", ["plugins = ", 'version = 1\nplugin = "never"\n', None])
    def test_unusable_policy(
        self, run: Runner, index: RecordingIndex, policy: Path, text: str | None
    ) -> None:
        """P-18: a policy that cannot be understood is never passed over."""
        if text is not None:
            policy.write_text(text)
        for words in (["explain", "x", "-i", index.url], ["probe"], ["providers", "list"]):
            result = run(*words, "--json", code=7)
            assert result.error["code"] == "unusable-policy"
            assert str(policy) in result.error["where"]

    @pytest.mark.usefixtures("own_files")
    def test_nobody_agrees(
        self, run: Runner, index: RecordingIndex, folder: Path, own_files: Path
    ) -> None:
        """P-18: without a terminal and without --yes nothing is trusted."""
        GPU.wheel(folder)
        result = run("providers", "trust", GPU.name, "-i", index.url, code=7)
        assert "no-consent" in result.err
        assert "sha256" in result.err  # what would be trusted is shown all the same
        assert not own_files.exists()


HOSTILE = ["hangs", "segfaults", "leaves", "raises_escapes", "answers_a_gigabyte"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_plugins(run: Runner, index: RecordingIndex, folder: Path, kind: str) -> None:
    """P-17, P-37: A-54: whatever one trusted plugin does, the other one still answers.

    The exit code is that of the choice that remains, and the reason is there.
    """
    bad = hostile(kind)
    bad.wheel(folder)
    OTHER.wheel(folder)
    variants = {
        "null": {},
        "a": {"other": {"kind": ["a"]}},
        "h": {"hostile": {"fine": ["yes"]}},
    }
    release(folder, "pair", variants, {"hostile": bad.provider, "other": OTHER.provider})
    trust(run, bad, index)
    trust(run, OTHER, index)
    # Long enough for the other one on a busy machine.
    seconds = "4" if kind == "hangs" else "60"
    started = time.monotonic()
    decided = Decided(run, "pair", "-i", index.url, "--plugin-timeout", seconds)
    assert time.monotonic() - started < 300
    assert decided.fitting == ["a", "null", None]
    assert decided.provider("hostile")["status"] == "failed"
    assert decided.provider("other")["status"] == "supported"
    assert decided.why_not("h")
    assert "\x1b" not in decided.said.out + decided.said.err


def test_nothing_is_left(run: Runner, index: RecordingIndex, folder: Path) -> None:
    """P-17: where a failing plugin leaves no wheel, the exit code is that of no wheel."""
    bad = hostile("leaves")
    bad.wheel(folder)
    document = release_document(
        {"h": {"hostile": {"fine": ["yes"]}}}, providers={"hostile": bad.provider}
    )
    build_wheel(folder, "only", "1.0", label="h", document=document)
    trust(run, bad, index)
    decided = Decided(run, "only", "-i", index.url, code=3)
    assert decided.fitting == []
    assert "hostile" in decided.why_not("h")
    result = run("install", "only", "-i", index.url, "-t", folder / "x", "--json", code=3)
    assert result.error["code"] == "no-compatible-wheel"


def test_what_is_installed_is_not_imported(
    run: Runner, index: RecordingIndex, folder: Path, tmp_path: Path
) -> None:
    """P-18: A-52: a plugin in the chosen environment gets no attention, trusted or not."""
    ran = tmp_path / "ran"
    plugin = "acme_provider/plugin.py"
    hurt = {**GPU.files, plugin: f"open({str(ran)!r}, 'w')\n{GPU.files[plugin]}"}
    build_wheel(tmp_path / "hurt", GPU.name, "1.2", files=hurt)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    python = tmp_path / "v" / "bin" / "python"
    run("install", GPU.name, "--python", python, "--no-index", "-f", tmp_path / "hurt")
    GPU.wheel(folder)
    acme(folder)
    words = ["fft", "-i", index.url, "--python", str(python)]
    assert Decided(run, *words).fitting == ["null", None]
    trust(run, GPU, index)
    assert Decided(run, *words).fitting == ["gen2", "gen1", "null", None]
    assert not ran.exists()


def test_noise_is_tolerated(run: Runner, index: RecordingIndex, folder: Path) -> None:
    """P-36: what a plugin prints does not disturb its answer."""
    source = GPU.files["acme_provider/plugin.py"]
    noisy = {**GPU.files, "acme_provider/plugin.py": f"print('[]\\n' * 1000)\n{source}"}
    build_wheel(folder, GPU.name, "1.2", files=noisy)
    acme(folder)
    trust(run, GPU, index)
    assert Decided(run, "fft", "-i", index.url).fitting == ["gen2", "gen1", "null", None]


def test_asked_once(run: Runner, index: RecordingIndex, folder: Path) -> None:
    """P-22: a plugin is asked once, however many packages need it."""
    GPU.wheel(folder)
    acme(folder)
    variants = {"gen2": {"acme": {"generation": ["2"]}}}
    release(folder, "blas", variants, {"acme": GPU.provider})
    trust(run, GPU, index)
    result = run("explain", "fft", "blas", "-i", index.url, "--trust-all-plugins", "--json")
    assert [project["chosen"]["label"] for project in result.object["projects"]] == ["gen2", "gen2"]
    # Every asking by --trust-all-plugins is told.
    assert result.err.count("every plugin is trusted") == 1
    assert result.err.count("asking plugin acme-provider 1.2 about acme") == 1


def test_probe_asks_too(run: Runner, index: RecordingIndex, folder: Path) -> None:
    """P-15, P-21: probe shows what trusted plugins say, with distribution and hash."""
    GPU.wheel(folder)
    trusted = trust(run, GPU, index, "--try")
    assert trusted["answer"]["features"] == [{"name": "generation", "values": ["2", "1"]}]
    said = run("probe", "acme", "--json").object["namespaces"]["acme"]
    assert said["features"] == [{"name": "generation", "values": ["2", "1"]}]
    (file,) = said["plugin"]["files"]
    assert file["sha256"] == trusted["files"][0]["sha256"]
    seen = {one["source"]: one["value"] for one in said["evidence"]}
    assert seen[file["filename"]] == f"sha256 {file['sha256']} from {index.url}"
    assert "answered in" in seen[GPU.endpoint]
    assert {"confined by", "not confined"} & seen.keys()
    acme(folder)
    host = folder.parent / "host.toml"
    run("probe", "-o", host)
    decided = Decided(run, "fft", "-i", index.url, "--for", host)
    assert decided.fitting == ["gen2", "gen1", "null", None]  # P-44: what it said can be carried
    assert decided.provider("acme")["step"] == "user-list"
    off = run("probe", "acme", "--no-plugins", "--json").object["namespaces"]["acme"]
    assert off["status"] == "unknown"


def test_untrusted_again(
    run: Runner, index: RecordingIndex, folder: Path, tmp_path: Path, own_files: Path
) -> None:
    """P-18: trust can be taken back; the environment goes with it."""
    GPU.wheel(folder)
    acme(folder)
    trust(run, GPU, index)
    Decided(run, "fft", "-i", index.url)
    report = run("providers", "untrust", GPU.name, "--json").object
    assert len(report["removed"]) == 1
    assert not Path(report["removed"][0]).exists()
    assert "acme" not in own_files.read_text()
    assert Decided(run, "fft", "-i", index.url).fitting == ["null", None]
    assert run("providers", "untrust", GPU.name, "--json", code=1).error["code"] == "not-installed"
    assert (tmp_path / "cache" / "plugins").is_dir()


def test_what_is_replaced_goes(
    run: Runner, index: RecordingIndex, folder: Path, tmp_path: Path
) -> None:
    """P-38: environments of files that are not trusted any more do not stay."""
    GPU.wheel(folder)
    acme(folder, {**GPU.provider, "requires": ["acme-provider>=1"]})
    trust(run, GPU, index, "--try")
    before = {path.parent for path in (tmp_path / "cache/plugins").glob("*/wheelfit-plugin.json")}
    assert len(before) == 1
    simple_plugin("acme", {"generation": ["1"]}, version="1.3").wheel(folder)
    trust(run, GPU, index)
    assert not any(one.exists() for one in before)
    assert Decided(run, "fft", "-i", index.url).fitting == ["gen1", "null", None]


def test_interrupted(index: RecordingIndex, folder: Path, tmp_path: Path, own_files: Path) -> None:
    """P-37: Control-C while a plugin hangs ends the command and the plugin."""
    bad = hostile("hangs")
    bad.wheel(folder)
    release(folder, "pair", {"h": {"hostile": {"x": ["y"]}}}, {"hostile": bad.provider})
    words = [
        "explain", "pair", "-i", index.url, "--plugin-timeout", "120", "--trust-all-plugins",
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
        patience = time.monotonic() + 60
        while not [*place.glob("*/wheelfit-plugin.json")] and time.monotonic() < patience:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


def test_the_contract(run: Runner, index: RecordingIndex, folder: Path, tmp_path: Path) -> None:
    """P-21, P-32: every object about plugins is as documented; installed ones are only listed."""
    GPU.wheel(folder)
    acme(folder)
    check("providers", trust(run, GPU, index, "--try"))
    check("providers", trust(run, GPU, index))
    for words in (["list"], ["show", "acme"], ["show", "nvidia"], ["show", "openmp"]):
        check("providers", run("providers", *words, "--json").object)
    check("probe", run("probe", "acme", "--json").object)
    check("explain", run("explain", "fft", "-i", index.url, "--json").object)
    words = ["install", "fft", "-i", index.url, "-t", str(tmp_path / "target"), "--json"]
    check("install", run(*words).object)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    python = tmp_path / "v" / "bin" / "python"
    run("install", GPU.name, "--python", python, "-i", index.url)
    listed = run("providers", "list", "--python", python, "--json").object
    check("providers", listed)
    (found,) = listed["installed"]
    assert (found["package"], found["plugin_api"]) == (GPU.name, GPU.endpoint)
    (trusted,) = listed["trusted"]
    assert trusted["refusal"] is None
    assert len(trusted["environments"]) == 1
    for words in (["enable", "acme"], ["disable", "acme"], ["untrust", GPU.name]):
        check("providers", run("providers", *words, "--json").object)


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
        run: Runner,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        endpoint: str,
        feature: str | None,
    ) -> None:
        """P-15, P-36: a real plugin is installed and asked, whatever it prints."""
        monkeypatch.delenv("PIP_CONFIG_FILE")
        report = run(
            "providers", "trust", name, "--namespace", "published", "--plugin-api", endpoint,
            "--yes", "--try", "--json",
        ).object  # fmt: skip
        assert report["answer"]["status"] in {"supported", "nothing"}
        assert report["answer"]["plugin"]["name"] == name
        features = {feature["name"]: feature["values"] for feature in report["answer"]["features"]}
        if feature is not None:
            assert features[feature]
        assert any("wheelfit emulates" in warning for warning in report["warnings"])
