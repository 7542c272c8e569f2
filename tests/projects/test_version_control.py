"""Repositories: what URLs ask for, and how safely it is had."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from error_codes import raises_code
from projects.writing import commit_all, write_project

from wheelfit.projects.version_control import RepositoryUrl, check_out, parse_repository_url
from wheelfit_runtime.errors import UserError


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Give an environment without configuration of git."""
    home = {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    return {"PATH": os.environ["PATH"], **home}


class TestUrls:
    """Reading URLs."""

    def test_all_of_it(self) -> None:
        """Repository, revision and folder are told apart; the login is neither shown nor kept."""
        text = "git+https://me:s3cret@h.example/a/b.git@v1.0/x#egg=b&subdirectory=python/pkg"
        found = parse_repository_url(text)
        assert found == RepositoryUrl("https://h.example/a/b.git", "v1.0/x", "python/pkg")
        assert found.login == ("me", "s3cret")
        assert "s3cret" not in str(found) + repr(found)
        assert found.direct_url("abc") == {
            "url": "https://h.example/a/b.git",
            "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "v1.0/x"},
            "subdirectory": "python/pkg",
        }

    @pytest.mark.parametrize("folder", ["c++/python", "c%2B%2B/python", "/c++/python/"])
    def test_plus_signs_in_the_subdirectory(self, folder: str) -> None:
        """A plus sign is a blank in a query only."""
        found = parse_repository_url(f"git+https://h.example/a.git#subdirectory={folder}")
        assert found.subdirectory == "c++/python"

    @pytest.mark.parametrize(
        ("revision", "name"), [("v1%2Ba", "v1+a"), ("w%231", "w#1"), ("a%40b", "a@b"), ("é", "é")]
    )
    def test_quoted_revisions(self, revision: str, name: str) -> None:
        """A revision is decoded, as by pip and uv; the text of the URL can be read again."""
        found = parse_repository_url(f"git+https://h.example/a.git@{revision}")
        assert (found.url, found.revision) == ("https://h.example/a.git", name)
        assert parse_repository_url(found.full_url) == found

    def test_the_name_of_a_user_of_ssh(self) -> None:
        """It is no secret, and nothing works without it."""
        found = parse_repository_url("git+ssh://git@h.example/a.git")
        assert (found.url, found.login) == ("ssh://git@h.example/a.git", None)
        assert found.revision is None

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("git+ext::sh -c evil://x", "its scheme ext is not supported"),
            ("git+ext://sh -c evil", "its scheme ext is not supported"),
            ("git+fd://17/x", "its scheme fd is not supported"),
            ("git+git@h.example:a.git", "it has no scheme"),
            ("hg+https://h.example/a", "only git is"),
            ("git+https://h.example/a@--upload-pack=evil", "not a valid name of a revision"),
            ("git+https://h.example/a@-x", "not a valid name of a revision"),
            ("git+https://h.example/a@x y", "not a valid name of a revision"),
            ("git+https://h.example/a@x..y", "not a valid name of a revision"),
            ("git+https://h.example/a@x:y", "not a valid name of a revision"),
            ("git+https://h.example/a@", "not a valid name of a revision"),
            ("git+ssh://-oProxyCommand=evil/a", "does not name a repository"),
            ("git+ssh://-oProxyCommand=evil@h.example/a", "does not name a repository"),
            ("git+ssh://h.example/-a", "does not name a repository"),
            ("git+https:///a", "does not name a repository"),
            ("git+https://h.example/", "does not name a repository"),
            ("git+https://h.example/a#subdirectory=../..", "outside the repository"),
            ("git+https://[::1/a", "cannot be read"),
        ],
    )
    def test_refused(self, text: str, words: str) -> None:
        """No command, no option and no folder above comes in through a URL."""
        with pytest.raises(UserError, match=words):
            parse_repository_url(text, where="requirements.txt:1")


class TestCheckOut:
    """Getting a revision, from a repository on this disk."""

    @pytest.mark.parametrize("how", ["default", "branch", "tag", "commit", "short", "ref"])
    def test_revisions(self, how: str, environ: dict[str, str], tmp_path: Path) -> None:
        """A branch, a tag, a commit, any ref, or what the repository has by default."""
        project = write_project(tmp_path / "repository", "demo", "1.0")
        first = commit_all(project, tag="v1")
        write_project(project, "demo", "2.0")
        second = commit_all(project)
        (project / ".git/refs/pull").mkdir()
        (project / ".git/refs/pull/1").write_text(f"{first}\n")
        revision, expected = {
            "default": (None, second),
            "branch": ("main", second),
            "tag": ("v1", first),
            "commit": (first, first),
            "short": (first[:10], first),
            "ref": ("refs/pull/1", first),
        }[how]
        folder = tmp_path / "out"
        folder.mkdir()
        assert check_out(RepositoryUrl(project.as_uri(), revision), folder, environ) == expected
        version = "2.0" if expected == second else "1.0"
        assert f'version = "{version}"' in (folder / "pyproject.toml").read_text()

    @pytest.mark.parametrize("kind", ["heads", "tags"])
    def test_nothing_is_called_like_a_commit(
        self, kind: str, environ: dict[str, str], tmp_path: Path
    ) -> None:
        """The id of a commit means that commit, even where a branch or tag has its name."""
        project = write_project(tmp_path / "repository", "demo", "1.0")
        first = commit_all(project)
        write_project(project, "demo", "2.0")
        second = commit_all(project)
        (project / ".git/refs" / kind / first).write_text(f"{second}\n")
        for number, revision in enumerate([first, first.upper()]):
            folder = tmp_path / f"out-{number}"
            folder.mkdir()
            assert check_out(RepositoryUrl(project.as_uri(), revision), folder, environ) == first
            assert 'version = "1.0"' in (folder / "pyproject.toml").read_text()

    def test_branch_named_like_a_longer_commit(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        """A branch never stands for an id, even of a length that the repository's ids lack."""
        project = write_project(tmp_path / "repository", "demo", "1.0")
        commit_id = "a" * 64
        (project / ".git/refs/heads" / commit_id).write_text(f"{commit_all(project)}\n")
        folder = tmp_path / "out"
        folder.mkdir()
        with raises_code("checkout-failed"):
            check_out(RepositoryUrl(project.as_uri(), commit_id), folder, environ)

    def test_a_commit_without_a_branch(self, environ: dict[str, str], tmp_path: Path) -> None:
        """A server is asked for a commit that belongs to no branch any more."""
        project = write_project(tmp_path / "repository", "demo", "1.0")
        first = commit_all(project)
        left = project / ".git/refs/pull"
        left.mkdir()
        (left / "1").write_text(f"{first}\n")
        write_project(project, "demo", "2.0")
        (project / ".git/HEAD").write_text("ref: refs/heads/other\n")
        second = commit_all(project)
        (project / ".git/refs/heads/main").write_text(f"{second}\n")
        folder = tmp_path / "out"
        folder.mkdir()
        assert check_out(RepositoryUrl(project.as_uri(), first), folder, environ) == first

    @pytest.mark.parametrize(("place", "revision"), [("repository", "nope"), ("nowhere", None)])
    def test_failures(
        self, place: str, revision: str | None, environ: dict[str, str], tmp_path: Path
    ) -> None:
        """What is not there is an error with what git said of it."""
        commit_all(write_project(tmp_path / "repository", "demo"))
        folder = tmp_path / "out"
        folder.mkdir()
        wanted = RepositoryUrl((tmp_path / place).as_uri(), revision)
        with raises_code("checkout-failed") as excinfo:
            check_out(wanted, folder, environ)
        assert excinfo.value.note
        assert excinfo.value.exit_code == 5

    def test_another_repository_around(self, environ: dict[str, str], tmp_path: Path) -> None:
        """Variables that git sets for its hooks are not passed on."""
        project = write_project(tmp_path / "repository", "demo")
        commit = commit_all(project)
        folder = tmp_path / "out"
        folder.mkdir()
        other = str(tmp_path / "other")
        around = {"GIT_DIR": other, "GIT_COMMON_DIR": other, "GIT_WORK_TREE": str(tmp_path)}
        around["GIT_NAMESPACE"] = "other"
        assert check_out(RepositoryUrl(project.as_uri()), folder, {**environ, **around}) == commit

    def test_without_git(self, tmp_path: Path) -> None:
        """Where git is not installed, that is said."""
        with raises_code("checkout-failed", match="git was not found"):
            check_out(RepositoryUrl("file:///x"), tmp_path, {"PATH": str(tmp_path)})

    def test_a_login(self, tmp_path: Path) -> None:
        """Git gets a login by its environment; its arguments, which all can see, are without."""
        told = tmp_path / "told"
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" >> {told}\nenv >> {told}.environ\nexit 1\n'
        )
        program.chmod(0o755)
        wanted = parse_repository_url("git+https://me:s3cret@h.example/a.git")
        environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
        with raises_code("checkout-failed"):
            check_out(wanted, tmp_path, environ)
        assert "s3cret" not in told.read_text()
        said = Path(f"{told}.environ").read_text()
        assert "WHEELFIT_GIT_PASSWORD=s3cret" in said
        assert "GIT_CONFIG_KEY_0=credential.https://h.example.helper" in said
        assert "GIT_CONFIG_COUNT=1\n" in said
        assert "GIT_TERMINAL_PROMPT=0" in said
        assert "GIT_ALLOW_PROTOCOL=https:http:ssh:git\n" in said
        own = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
        with raises_code("checkout-failed"):
            check_out(wanted, tmp_path, {**environ, **own})
        said = Path(f"{told}.environ").read_text()
        assert "GIT_CONFIG_COUNT=2\n" in said
        assert "GIT_CONFIG_KEY_0=a.b\n" in said
        assert "GIT_CONFIG_KEY_1=credential.https://h.example.helper" in said
