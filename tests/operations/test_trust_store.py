"""The files about plugins on disk."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from error_codes import raises_code
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from wheelfit.core.trust import NO_TRUST, Trust, TrustedFile, TrustEntry
from wheelfit.operations.trust_store import (
    change_trust,
    policy_file,
    read_policies,
    read_trust_file,
    trust_file,
)
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration

DIGEST = "0" * 64
ENTRY = (
    '[[trusted]]\npackage = "p"\n'
    f'files = [{{ filename = "p-1-py3-none-any.whl", sha256 = "{DIGEST}" }}]\n'
)


def entry(name: str) -> TrustEntry:
    """Make an entry."""
    file = TrustedFile(f"{name}-1-py3-none-any.whl", DIGEST)
    return TrustEntry(canonicalize_name(name), SpecifierSet(), (file,))


_ADD = f"""
import sys
from msgspec.structs import replace
from pathlib import Path
from packaging.specifiers import SpecifierSet
from wheelfit.operations.trust_store import change_trust
from wheelfit.core.trust import TrustedFile, TrustEntry
name = sys.argv[2]
entry = TrustEntry(name, SpecifierSet(), (TrustedFile(name + "-1-py3-none-any.whl", {DIGEST!r}),))
change_trust(Path(sys.argv[1]), lambda old: replace(old, entries=(*old.entries, entry)))
"""
"""Trusts one more package, in a process of its own."""


class TestWhere:
    """Which file it is."""

    @pytest.mark.parametrize(
        ("platform", "environ", "expected"),
        [
            ("linux", {}, "/home/me/.config/wheelfit/providers.toml"),
            ("linux", {"XDG_CONFIG_HOME": "/c"}, "/c/wheelfit/providers.toml"),
            (
                "linux",
                {"WHEELFIT_CONFIG_FILE": "/x/y.toml"},
                "/home/me/.config/wheelfit/providers.toml",
            ),
            ("linux", {"WHEELFIT_PROVIDERS_FILE": "/x/y.toml"}, "/x/y.toml"),
            ("darwin", {}, "/home/me/Library/Application Support/wheelfit/providers.toml"),
            ("win32", {"APPDATA": "/a"}, "/a/wheelfit/providers.toml"),
        ],
    )
    def test_the_users(self, platform: str, environ: dict[str, str], expected: str) -> None:
        """P-18: beside the user's settings, never in the current folder."""
        assert trust_file(environ, platform, Path("/home/me")).as_posix() == expected

    def test_the_sites(self) -> None:
        """P-18: no variable of a user leads elsewhere."""
        assert policy_file("linux") == Path("/etc/wheelfit/policy.toml")
        assert policy_file("darwin") == Path("/Library/Application Support/wheelfit/policy.toml")


class TestTrust:
    """What the user trusts."""

    def test_none(self, tmp_path: Path) -> None:
        """P-18: no file trusts nothing."""
        assert read_trust_file(tmp_path / "none") == NO_TRUST
        assert read_trust_file(Path(os.devnull)) == NO_TRUST

    def test_written_privately(self, tmp_path: Path) -> None:
        """P-18: the file and its folder are made; only the user can read it."""
        path = tmp_path / "new" / "providers.toml"
        after = change_trust(path, lambda old: replace(old, entries=(entry("p"),)))
        assert read_trust_file(path) == after == Trust((entry("p"),))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().startswith("# Plugins that wheelfit may install and run")

    def test_a_failure_changes_nothing(self, tmp_path: Path) -> None:
        """P-18: what cannot be understood is not overwritten."""
        path = tmp_path / "providers.toml"
        path.write_text("version = 2\n")
        path.chmod(0o600)
        with pytest.raises(InvalidConfiguration):
            change_trust(path, lambda old: old)
        assert path.read_text() == "version = 2\n"

    def test_a_link_stays_one(self, tmp_path: Path) -> None:
        """P-18: settings that are links into another folder are written there."""
        (tmp_path / "synced").mkdir()
        path = tmp_path / "providers.toml"
        path.symlink_to(tmp_path / "synced" / "providers.toml")
        change_trust(path, lambda old: replace(old, entries=(entry("p"),)))
        assert path.is_symlink()
        assert read_trust_file(path) == Trust((entry("p"),))

    def test_too_long(self, tmp_path: Path) -> None:
        """P-18: a file without end is refused and not read to it."""
        path = tmp_path / "providers.toml"
        path.write_bytes(b"#" * (4 << 20) + b"#")
        path.chmod(0o600)
        with pytest.raises(InvalidConfiguration, match="more than"):
            read_trust_file(path)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe(self, tmp_path: Path) -> None:
        """P-18: nobody waits for a pipe in its place."""
        os.mkfifo(tmp_path / "providers.toml")
        with pytest.raises(InvalidConfiguration, match="it is a pipe"):
            read_trust_file(tmp_path / "providers.toml")

    def test_no_file_to_keep_it_in(self) -> None:
        """P-18: what cannot be kept is not agreed to in silence."""
        with pytest.raises(FileProblem):
            change_trust(Path(os.devnull), lambda old: replace(old, entries=(entry("p"),)))

    def test_others_can_write(self, tmp_path: Path) -> None:
        """P-18: a file that others can write to is not the word of the user."""
        path = tmp_path / "providers.toml"
        path.write_text(f"version = 1\n{ENTRY}")
        path.chmod(0o664)
        with pytest.raises(InvalidConfiguration, match="others can write"):
            read_trust_file(path)

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to give a file away"
    )
    def test_of_somebody_else(self, tmp_path: Path) -> None:
        """P-18: what another user trusts is not trusted here."""
        path = tmp_path / "providers.toml"
        path.write_text(f"version = 1\n{ENTRY}")
        path.chmod(0o600)
        os.chown(path, 12345, 12345)
        notes: list[str] = []
        assert read_trust_file(path, notes.append) == NO_TRUST
        assert "belongs to another user" in notes[0]

    @pytest.mark.integration
    def test_many_writers(self, tmp_path: Path) -> None:
        """P-18: of changes that are made at once none is lost."""
        path = tmp_path / "providers.toml"
        names = [f"p{number}" for number in range(6)]
        words = [sys.executable, "-c", _ADD, str(path)]
        processes = [subprocess.Popen([*words, name]) for name in names]
        assert [process.wait(60) for process in processes] == [0] * len(names)
        assert sorted(one.package for one in read_trust_file(path).entries) == names
        left = {path.name for path in tmp_path.iterdir()} - {path.name}
        assert left <= {f".{path.name}.lock"}


class TestPolicy:
    """What the site allows."""

    def test_none(self, tmp_path: Path) -> None:
        """P-18: without a file nothing is forbidden."""
        assert read_policies({}, tmp_path / "policy.toml").files == ()

    def test_both_count(self, tmp_path: Path) -> None:
        """P-18: the named file is added to the system's, and its list trusts nothing by itself."""
        system, named = tmp_path / "system.toml", tmp_path / "named.toml"
        system.write_text('version = 1\nplugins = "listed"\n')
        named.write_text(f'version = 1\ndisable-provider = ["tpu"]\n{ENTRY}')
        policy = read_policies({"WHEELFIT_POLICY_FILE": str(named)}, system)
        assert [file.where for file in policy.files] == [str(system), str(named)]
        assert policy.disabled == {"tpu": str(named)}
        assert policy.forbids_trust_all == (str(system), 'plugins = "listed"')
        assert policy.granted == ()

    def test_a_list_that_trusts(self, tmp_path: Path) -> None:
        """P-18: only what nobody but root can have written is trusted for everybody."""
        folder = tmp_path / "etc"
        folder.mkdir(mode=0o755)
        system = folder / "policy.toml"
        system.write_text(f"version = 1\n{ENTRY}")
        system.chmod(0o644)
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        assert bool(read_policies({}, system).granted) is is_root
        system.chmod(0o666)
        assert read_policies({}, system).granted == ()
        system.chmod(0o644)
        folder.chmod(0o777)
        assert read_policies({}, system).granted == ()

    def test_named_but_not_there(self, tmp_path: Path) -> None:
        """P-18: a policy that somebody named and that is not there is no reason to go on."""
        with raises_code("unusable-policy") as excinfo:
            read_policies({"WHEELFIT_POLICY_FILE": str(tmp_path / "none")}, tmp_path / "system")
        assert excinfo.value.where == str(tmp_path / "none")
        assert excinfo.value.exit_code == 7

    def test_unreadable(self, tmp_path: Path) -> None:
        """P-18: neither is one that cannot be read."""
        (tmp_path / "policy.toml").mkdir()
        with raises_code("unusable-policy", match="cannot be read"):
            read_policies({}, tmp_path / "policy.toml")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe(self, tmp_path: Path) -> None:
        """P-18: nor is a pipe waited for, wherever it is."""
        pipe = tmp_path / "policy.toml"
        os.mkfifo(pipe)
        for environ, system in (({}, pipe), ({"WHEELFIT_POLICY_FILE": str(pipe)}, tmp_path / "no")):
            with raises_code("unusable-policy", match="it is a pipe"):
                read_policies(environ, system)

    def test_a_link_that_leads_nowhere(self, tmp_path: Path) -> None:
        """P-18: a policy that lies on a disk which is not there now is not taken for none."""
        (tmp_path / "file.toml").symlink_to(tmp_path / "missing" / "policy.toml")
        (tmp_path / "folder").symlink_to(tmp_path / "missing")
        for path in (tmp_path / "file.toml", tmp_path / "folder" / "policy.toml"):
            with raises_code("unusable-policy", match="cannot be read"):
                read_policies({}, path)
        (tmp_path / "missing").mkdir()
        assert read_policies({}, tmp_path / "folder" / "policy.toml").files == ()
