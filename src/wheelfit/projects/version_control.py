"""Projects in repositories: their URLs, and the checkout of a revision.

Git's own program is run with arguments that cannot be taken for options, over transports that run
no commands, and without prompts for a password. A login in the URL is passed to git in its
environment, which other users cannot see.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from wheelfit.sources.cached_pages import offline as refused_offline
from wheelfit.sources.urls import redact, split_userinfo, subdirectory_of
from wheelfit_runtime.errors import NetworkError, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_TRANSPORTS = ("https", "http", "ssh", "git", "file")
"""The supported URL schemes."""
_REVISION = re.compile(r"(?!-)[^\s\x00-\x1f\x7f~^:?*\[\\]+")
_SAFE = "/!$&'()+,;="
"""The punctuation that a URL may have in the name of a revision."""
_COMMIT = re.compile(r"(?i:[0-9a-f]{40}|[0-9a-f]{64})")
_SHOWN_LINES = 5
"""Last lines of git's output in an error."""


@dataclass(frozen=True, slots=True)
class RepositoryUrl:
    """The parts of a URL such as ``git+https://host/project@v1#subdirectory=python``."""

    url: str
    """The URL of the repository, without login."""
    revision: str | None = None
    """The requested branch, tag or commit; None: the repository's default."""
    subdirectory: str = ""
    """Folder of the project within the repository, with ``/``; empty: the repository itself."""
    login: tuple[str, str | None] | None = field(default=None, repr=False, compare=False)
    system: str = "git"

    def __str__(self) -> str:
        return f"{self.system}+{redact(self.url)}{self._suffix}"

    @property
    def full_url(self) -> str:
        """The whole URL, without login."""
        return f"{self.system}+{self.url}{self._suffix}"

    @property
    def _suffix(self) -> str:
        """The end of the URL, with revision and subdirectory."""
        revision = f"@{quote(self.revision, safe=_SAFE)}" if self.revision else ""
        folder = f"#subdirectory={self.subdirectory}" if self.subdirectory else ""
        return revision + folder

    def direct_url(self, commit: str) -> dict[str, object]:
        """Return the content of ``direct_url.json`` for an installation from here (PEP 610).

        :param commit: the revision that was checked out.
        """
        info = {"vcs": self.system, "commit_id": commit}
        if self.revision:
            info["requested_revision"] = self.revision
        folder = {"subdirectory": self.subdirectory} if self.subdirectory else {}
        return {"url": self.url, "vcs_info": info, **folder}


def parse_repository_url(text: str, *, where: str = "") -> RepositoryUrl:
    """Parse the URL of a repository.

    :raises UserError: it cannot be read, or uses an unsupported feature.
    """
    system, _, rest = text.partition("+")
    try:
        parts = urlsplit(rest)
        host = parts.hostname or ""
    except ValueError as error:
        raise _refusal(text, f"it cannot be read: {error}", where) from None
    if system.lower() != "git":
        raise _refusal(text, f"{system} is not supported, only git is", where)
    if parts.scheme not in _TRANSPORTS:
        raise _refusal(
            text,
            f"its scheme {parts.scheme} is not supported" if parts.scheme else "it has no scheme",
            where,
            hint=f"use one of git+{', git+'.join(_TRANSPORTS)}; write git@host:path as "
            "git+ssh://git@host/path",
        )
    path, at_sign, revision = parts.path.rpartition("@")
    revision = unquote(revision)
    if not at_sign:
        path, revision = parts.path, ""
    elif not revision or _REVISION.fullmatch(revision) is None or ".." in revision:
        raise _refusal(text, f"{revision!r} is not a valid name of a revision", where)
    # Programs that git starts would take such a host, user or path for an option.
    looks_like_option = host.startswith("-") or (parts.username or "").startswith("-")
    looks_like_option = looks_like_option or (path.startswith("/-") and parts.scheme == "ssh")
    if looks_like_option or (parts.scheme != "file" and not host) or not path.strip("/"):
        raise _refusal(text, "it does not name a repository", where)
    folder = subdirectory_of(rest)
    if ".." in folder.split("/") or "\\" in folder:
        raise _refusal(text, "its subdirectory is outside the repository", where)
    repository_url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    url, login = split_userinfo(repository_url)
    if parts.scheme in ("ssh", "git") and login is not None and login[1] is None:
        url, login = repository_url, None  # a user name alone is no secret, and ssh needs it
    return RepositoryUrl(url, revision or None, folder, login)


def _refusal(text: str, reason: str, where: str, *, hint: str | None = None) -> UserError:
    return UserError(
        f"this URL of a repository cannot be used: {reason}",
        where=where or None,
        note=redact(text),
        hint=hint,
    )


def check_out(
    repository: RepositoryUrl, folder: Path, environ: Mapping[str, str], *, offline: bool = False
) -> str:
    """Check out a revision with its submodules, and return the id of its commit.

    :param environ: the environment of the process; git's own configuration applies.
    :param offline: whether no server may be contacted, not even for submodules.
    :raises NetworkError: ``checkout-failed``; the revision is not available.
    :raises Unreachable: a server would have to be contacted while offline.
    """
    if offline and not repository.url.startswith("file:"):
        raise refused_offline(str(repository))
    git = _Git(repository, folder, environ, offline=offline)
    # A partial clone lacks the files of other commits; servers without the feature send all.
    filters = [] if repository.url.startswith("file:") else ["--filter=blob:none"]
    git("clone", "--quiet", "--no-checkout", "--template=", *filters, "--", repository.url, ".")
    commit = _find_revision(git, repository.revision)
    git("checkout", "--quiet", "--detach", commit)
    if (folder / ".gitmodules").is_file():
        git("submodule", "--quiet", "update", "--init", "--recursive")
    return commit


def _find_revision(git: _Git, revision: str | None) -> str:
    """Return the commit of a branch, tag, commit or other ref; None: of the default branch."""
    if revision is None:
        return git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    names = [f"refs/remotes/origin/{revision}", f"refs/tags/{revision}"]
    if _COMMIT.fullmatch(revision):
        names = [revision]  # a full commit id takes precedence over a branch of that name
    elif re.fullmatch(r"[0-9a-fA-F]{4,63}", revision):
        names.append(revision)
    for name in names:
        commit = git.find_commit(name)
        if commit is not None:
            return commit
    # A commit on no branch, or a ref of another kind, such as refs/pull/1/head.
    git("fetch", "--quiet", "--no-tags", "--", "origin", revision)
    # Git fetches a branch if an id has another length than those of the repository.
    fetched = revision if _COMMIT.fullmatch(revision) else "FETCH_HEAD"
    return git("rev-parse", "--verify", "--quiet", f"{fetched}^{{commit}}")


class _Git:
    """Git in one folder."""

    def __init__(
        self, repository: RepositoryUrl, folder: Path, environ: Mapping[str, str], *, offline: bool
    ) -> None:
        self._repository = repository
        self._folder = folder
        program = shutil.which("git", path=environ.get("PATH", os.defpath))
        if program is None:
            raise NetworkError(
                "git was not found on PATH", code="checkout-failed", where=str(repository)
            )
        self._program = program
        self._environ = _environ_for(repository, environ)
        if offline:
            self._environ["GIT_ALLOW_PROTOCOL"] = "file"

    def __call__(self, *arguments: str) -> str:
        process = self._run(arguments)
        if process.returncode:
            lines = [line for line in redact(process.stderr).splitlines() if line.strip()]
            raise NetworkError(
                f"git {arguments[0]} failed",
                code="checkout-failed",
                where=str(self._repository),
                note="\n".join(lines[-_SHOWN_LINES:]) or None,
                hint="check the URL, the revision and your permissions: "
                f"git ls-remote {redact(self._repository.url)}",
            )
        return process.stdout.strip()

    def find_commit(self, name: str) -> str | None:
        """Return the commit of a ref or of an object id, which may be that of a tag."""
        process = self._run(("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"))
        return process.stdout.strip() if process.returncode == 0 else None

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, "-c", "core.hooksPath=", *arguments],
            cwd=self._folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )


_CREDENTIAL_HELPER = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" '
    '"$WHEELFIT_GIT_USER" "$WHEELFIT_GIT_PASSWORD"; }; f'
)
_REPOSITORY_VARIABLES = frozenset({
    "GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE",
})  # fmt: skip


def _environ_for(repository: RepositoryUrl, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of git: no prompts, and no variables that name other repositories."""
    variables = {
        name: value for name, value in environ.items() if name not in _REPOSITORY_VARIABLES
    }
    variables |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:git"
        + (":file" if repository.url.startswith("file:") else ""),
        "GCM_INTERACTIVE": "never",
        "LC_ALL": "C",
    }
    if "GIT_SSH" not in variables:
        variables.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    if repository.login is not None:
        user, password = repository.login
        parts = urlsplit(repository.url)
        count = variables.get("GIT_CONFIG_COUNT", "")
        first_free = int(count) if re.fullmatch(r"[0-9]{1,6}", count) else 0
        variables |= {
            "GIT_CONFIG_COUNT": str(first_free + 1),
            f"GIT_CONFIG_KEY_{first_free}": f"credential.{parts.scheme}://{parts.netloc}.helper",
            f"GIT_CONFIG_VALUE_{first_free}": _CREDENTIAL_HELPER,
            "WHEELFIT_GIT_USER": user,
            "WHEELFIT_GIT_PASSWORD": password or "",
        }
    return variables
