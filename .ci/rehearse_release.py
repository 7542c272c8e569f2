"""Rehearse a release here: sign its files with a test key, publish them, verify and install them.

``nox -s release -- --dry-run`` runs this with the files it has built. Nothing is sent to other
machines; what wheelfit requires comes from the package index of pip's configuration.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.publishing.release_files import ATTESTATION
from wheelfit.testing.attestations import SigningAuthority

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPOSITORY = "OWNER/wheelfit"
_DISTRIBUTIONS = ("wheelfit-runtime", "wheelfit", "wheelfit-families")
_CI = Path(__file__).parent
_WHEELFIT = (sys.executable, "-m", "wheelfit")


def main(dist: Path) -> None:
    """Rehearse the release of all files in a folder."""
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        scratch = Path(name)
        authority = SigningAuthority(REPOSITORY)
        environ = os.environ | authority.trust(scratch / "cache")
        signed = sign(dist, authority, scratch / "signed")
        with index(scratch / "index", environ) as (url, token):
            login = {"WHEELFIT_INDEX_TOKEN": token}
            run(*_WHEELFIT, "publish", str(signed), "--to", url, environ=environ | login)
            verify(url, scratch / "verified", environ)
            install(url, scratch / "installed")


def sign(dist: Path, authority: SigningAuthority, signed: Path) -> Path:
    """Copy the files of a release, each with an attestation beside it."""
    shutil.copytree(dist, signed)
    for path in sorted(signed.iterdir()):
        attestation = authority.attest(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
        path.with_name(f"{path.name}{ATTESTATION}").write_bytes(attestation)
    return signed


@contextmanager
def index(folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Serve an empty index on a free port; give its URL, and the token for uploads."""
    folder.mkdir()
    words = ("index", "serve", str(folder), "--port", "0", "--log-format", "json")
    command = [*_WHEELFIT, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server:
        try:
            url = json.loads(server.stdout.readline())["url"]  # type: ignore[union-attr]  # a pipe
            yield url, (folder / "admin-token").read_text().strip()
        finally:
            server.terminate()


def verify(url: str, folder: Path, environ: Mapping[str, str]) -> None:
    """Install the wheels from the index only if the workflow of the release signed them."""
    named = [f"{name}=github:{REPOSITORY}" for name in _DISTRIBUTIONS]
    demands = [word for name in named for word in ("--trusted-publisher", name)]
    where = ("--index-url", url, "--no-deps", "--target", str(folder))
    run(*_WHEELFIT, "install", *where, *demands, *_DISTRIBUTIONS, environ=environ)


def install(url: str, folder: Path) -> None:
    """Install what the index has into an empty environment, as a user does, and run it."""
    run(sys.executable, "-m", "venv", str(folder))
    python = str(next(folder.glob("[bS]*/python*")))
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    # They come from this index and no other; only then is another one asked for what they require.
    run(*pip, "--index-url", url, "--no-deps", "--no-cache-dir", *_DISTRIBUTIONS)
    version = tomllib.loads((_CI.parent / "pyproject.toml").read_text())["project"]["version"]
    run(*pip, f"wheelfit=={version}", f"wheelfit-runtime=={version}")
    output = run(python, "-m", "wheelfit", "--version", isolated=folder)
    if output.split()[-1] != version:
        sys.exit(f"installed is {output.strip()!r}, not version {version}")
    run(python, "-m", "wheelfit", "probe", isolated=folder)


def run(
    *command: str, environ: Mapping[str, str] | None = None, isolated: Path | None = None
) -> str:
    """Run a command and print what it prints; end with its exit code if it fails.

    :param isolated: the folder to run it in, away from the sources of this checkout.
    """
    print("$", *command, flush=True)
    completed = subprocess.run(
        command, check=False, env=environ, cwd=isolated, stdout=subprocess.PIPE, text=True
    )
    print(completed.stdout, end="", flush=True)
    if completed.returncode:
        sys.exit(completed.returncode)
    return completed.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
