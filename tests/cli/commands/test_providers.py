"""``wheelfit providers``."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.plugins import fictional_hw, simple_plugin
from wheelfit_runtime.platforms.providers import namespaces

pytestmark = pytest.mark.integration

PLUGIN = simple_plugin("acme", {"generation": ["2"]}, version="1.2")
SHA = "0" * 64


@pytest.fixture(autouse=True)
def trust_file(own_settings: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of trusted plugins."""
    del own_settings
    path = tmp_path / "settings" / "providers.toml"
    monkeypatch.setenv("WHEELFIT_PROVIDERS_FILE", str(path))
    return path


@pytest.fixture
def wheels(tmp_path: Path) -> list[str]:
    """Build a plugin and return the options to find it."""
    PLUGIN.wheel(tmp_path / "wheels")
    return ["--no-index", "-f", str(tmp_path / "wheels")]


class TestList:
    """``providers list``."""

    def test_list(self, run: Runner) -> None:
        """P-18, P-60, P-162: all providers and static families are listed; no plugin is trusted."""
        result = run("providers", "list")
        for namespace in (*namespaces(), "blas_lapack", "openmp", "priority", "abi_dependency"):
            assert namespace in result.out
        assert "nvidia-variant-provider" in result.out
        assert "No plugin is trusted" in result.out
        assert run("providers", "list").out == result.out

    def test_no_file_is_written(self, run: Runner, tmp_path: Path) -> None:
        """P-18: listing and showing write no file."""
        run("providers", "list")
        run("providers", "show", "nvidia")
        assert not list(tmp_path.iterdir())

    def test_policy(
        self,
        run: Runner,
        wheels: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """P-18: A trusted plugin that the policy forbids is shown with the reason."""
        run("providers", "trust", PLUGIN.name, *wheels, "--yes")
        policy = tmp_path / "policy.toml"
        policy.write_text('version = 1\nplugins = "never"\ndisable-provider = ["tpu"]\n')
        monkeypatch.setenv("WHEELFIT_POLICY_FILE", str(policy))
        stdout = run("providers", "list").out
        assert f"not used: plugins are forbidden by {policy}" in stdout
        assert f"off: {policy}" in stdout
        assert f'Policy {policy}: plugins = "never"; off: tpu' in stdout


class TestShow:
    """``providers show``."""

    def test_built_in_provider(self, run: Runner) -> None:
        """P-28, P-60: vocabulary, order, date of the tables, and emulated packages are shown."""
        about = run("providers", "show", "x86_64", "--json").object
        assert about["vocabulary"][0]["feature"] == "level"
        assert about["vocabulary"][0]["values"] == ["v4", "v3", "v2", "v1"]
        assert {package["package"] for package in about["built_in"]["emulates"]} == {
            "provider-variant-x86-64",
            "x86-64-variant-provider",
        }
        assert "level: 4 values" in run("providers", "show", "x86_64").out

    def test_static_family(self, run: Runner) -> None:
        """P-162: the template of a static family is shown."""
        stdout = run("providers", "show", "openmp").out
        assert 'static-properties.provider = ["gnu", "intel", "llvm"]' in stdout

    def test_emulated_package(self, run: Runner) -> None:
        """P-13: the built-in provider for an emulated package is named."""
        assert (
            "nvidia provider is used instead"
            in run("providers", "show", "nvidia-variant-provider").out
        )

    def test_trusted_plugin(self, run: Runner, wheels: list[str]) -> None:
        """P-38: A trusted plugin is shown with its files, by namespace and by package."""
        run("providers", "trust", PLUGIN.name, "--namespace", "acme", *wheels, "--yes")
        by_namespace = run("providers", "show", "acme").out
        assert "sha256 " in by_namespace
        assert "acme_provider-1.2-py3-none-any.whl" in by_namespace
        assert "acme_provider-1.2-py3-none-any.whl" in run("providers", "show", PLUGIN.name).out

    def test_unknown_name(self, run: Runner) -> None:
        """P-19: an unknown name is an error."""
        assert run("providers", "show", "nonesuch", "--json", code=1).error["code"] == "user-error"


class TestTrust:
    """``providers trust``."""

    def test_hash(self, run: Runner, wheels: list[str], trust_file: Path) -> None:
        """P-19: with --hash only a file with this hash is trusted."""
        result = run(
            "providers", "trust", PLUGIN.name, "--hash", f"sha256:{SHA}", *wheels, "--yes",
            "--json", code=4,
        )  # fmt: skip
        assert result.error["code"] == "hash-mismatch"
        assert not trust_file.exists()
        digest = result.error["note"].rpartition(" ")[2]
        run("providers", "trust", PLUGIN.name, "--hash", f"sha256:{digest}", *wheels, "--yes")
        assert digest in trust_file.read_text()

    def test_trust_again(
        self, run: Runner, wheels: list[str], tmp_path: Path, trust_file: Path
    ) -> None:
        """P-18: trusting again replaces the files, with a warning; --keep adds to them."""
        run("providers", "trust", PLUGIN.name, *wheels, "--yes")
        simple_plugin("acme", {"generation": ["3"]}, version="1.3").wheel(tmp_path / "wheels")
        result = run("providers", "trust", f"{PLUGIN.name}<2", "--keep", *wheels, "--yes")
        assert "no longer trusted" not in result.err
        assert "1.2-py3" in trust_file.read_text()
        assert "1.3-py3" in trust_file.read_text()
        result = run("providers", "trust", PLUGIN.name, *wheels, "--yes")
        assert (
            "these files will not be trusted any more: acme_provider-1.2-py3-none-any.whl"
            in result.err
        )
        assert "1.2-py3" not in trust_file.read_text()

    def test_two_namespaces(self, run: Runner, wheels: list[str], trust_file: Path) -> None:
        """P-18: trust for one namespace does not affect another."""
        for namespace in ("one", "two"):
            run("providers", "trust", PLUGIN.name, "--namespace", namespace, *wheels, "--yes")
        assert trust_file.read_text().count("[[trusted]]") == 2

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (["trust"], 2),
            (["trust", "a", "b"], 2),
            (["trust", "a[b]"], 1),
            (["trust", "a @ https://example.org/a-1-py3-none-any.whl"], 1),
            (["trust", "a; python_version > '3'"], 1),
            (["trust", "a b"], 1),
            (["trust", "a", "--namespace", "A-B"], 1),
            (["trust", "a", "--plugin-api", "a b"], 1),
            (["trust", "a", "--hash", "md5:00"], 2),
            (["trsut", "a"], 2),
            (["list", "a"], 2),
            (["show", "a", "b"], 2),
            (["enable", "A-B"], 1),
            (["enable", "nvidai"], 1),
            (["untrust", "a"], 1),
        ],
    )
    def test_usage_errors(self, run: Runner, words: list[str], code: int, trust_file: Path) -> None:
        """P-18: usage errors change nothing."""
        offline = ["--no-index"] if words[0] == "trust" else []
        run("providers", *words, *offline, code=code)
        assert not trust_file.exists()

    @pytest.mark.parametrize(
        ("answer", "code"), [(b"y\n", 0), (b"yes\n", 0), (b"n\n", 7), (b"\n", 7), (b"\x04", 7)]
    )
    def test_confirmation_in_a_terminal(
        self, wheels: list[str], trust_file: Path, answer: bytes, code: int
    ) -> None:
        """P-18: all files are shown before the question; any answer but yes trusts nothing."""
        shown, status = answer_in_terminal(["providers", "trust", PLUGIN.name, *wheels], answer)
        assert status == code
        before, _, _ = shown.partition("Trust exactly these files?")
        assert "sha256 " in before
        assert "acme_provider-1.2-py3-none-any.whl" in before
        assert trust_file.exists() is (code == 0)

    def test_interrupt(self, wheels: list[str], trust_file: Path) -> None:
        """P-18: ctrl-C at the question trusts nothing."""
        shown, status = answer_in_terminal(
            ["providers", "trust", PLUGIN.name, "-q", *wheels], b"\x03"
        )
        assert status == 130
        assert "sha256 " in shown  # even with --quiet
        assert "Traceback" not in shown
        assert not trust_file.exists()


# A new session has no terminal yet; Control-C reaches only who has one.
_ON_TERMINAL = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("wheelfit", run_name="__main__", alter_sys=True)
"""


def answer_in_terminal(words: list[str], answer: bytes) -> tuple[str, int]:
    """Run wheelfit in a terminal, type an answer to its question, and return its output."""
    controller, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", _ON_TERMINAL, *words],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            if select.select([controller], [], [], 2)[0]:
                try:
                    piece = os.read(controller, 65536)
                except OSError:  # Linux says so when the other end is closed
                    break
                if not piece:
                    break
                shown += piece
            # Again after a silence: Control-C is lost if Python does not wait for the answer yet.
            if shown.endswith(b"[y/N] "):
                os.write(controller, answer)
        os.close(controller)
        return shown.decode("utf-8", "replace"), process.wait(60)


class TestSwitching:
    """``providers enable`` and ``disable``."""

    def test_disable_and_enable(self, run: Runner, trust_file: Path) -> None:
        """P-2, P-10: A disabled provider is off in every command until it is enabled."""
        run("providers", "disable", "x86_64", "acme")
        assert "wheelfit providers enable x86_64" in run("probe", "x86_64").out
        assert (
            run("probe", "x86_64", "--json").object["namespaces"]["x86_64"]["status"] == "disabled"
        )
        listed = run("providers", "list", "--json").object
        assert listed["disabled"] == [
            {"namespace": "acme", "by": str(trust_file)},
            {"namespace": "x86_64", "by": str(trust_file)},
        ]
        report = run("providers", "enable", "x86_64", "--json").object
        assert (report["enabled"], report["disabled"]) == (["x86_64"], ["acme"])
        assert (
            run("probe", "x86_64", "--json").object["namespaces"]["x86_64"]["status"] != "disabled"
        )

    def test_disabled_by_settings(self, run: Runner, user_settings: Path) -> None:
        """P-10: settings that disable a provider override `enable`, with a note."""
        user_settings.write_text('disable-provider = ["tpu"]\n')
        result = run("providers", "enable", "tpu")
        assert "tpu stays off" in result.err
        assert "disable-provider of wheelfit.toml" in run("providers", "show", "tpu").out


def test_plugin_settings(run: Runner, user_settings: Path, wheels: list[str]) -> None:
    """P-14, P-37: settings can disable plugins, and cannot trust all of them."""
    run("providers", "trust", PLUGIN.name, "--namespace", "acme", *wheels, "--yes")
    user_settings.write_text("no-plugins = true\nplugin-timeout = 2.5\n")
    found = run("probe", "acme", "--json").object["namespaces"]["acme"]
    assert found["status"] == "unknown"
    assert "switched off" in found["source"]
    for text in ("trust-all-plugins = true\n", "plugin-timeout = 0\n", 'plugin-timeout = "1"\n'):
        user_settings.write_text(text)
        assert run("probe", "--json", code=1).error["code"] == "invalid-configuration"


def test_fictional_plugins_are_unknown(run: Runner) -> None:
    """P-172: the fictional plugins of the tests are unknown providers."""
    run("providers", "show", fictional_hw().namespace, code=1)
    run("providers", "show", fictional_hw().name, code=1)
