"""Install what tests need of Debian (``packages.txt``) where that is possible, and never fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

LIST = Path(__file__).with_name("packages.txt")
LIMIT = 600
"""Seconds for one call: tests whose program is missing are skipped, and the others have to run."""


def is_installed(package: str) -> bool:
    """Return whether Debian's package is installed."""
    arguments = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(arguments, capture_output=True, check=False).stdout == b"installed"


def missing(text: str) -> list[str]:
    """Return the packages of a list that are not there, and whose programs are not either.

    :param text: a package a line, and perhaps a program; ``#`` begins a comment.
    """
    rows = (line.partition("#")[0].split() for line in text.splitlines())
    return [
        package
        for package, *program in filter(None, rows)
        if not any(map(shutil.which, program)) and not is_installed(package)
    ]


def apt_get(*arguments: str) -> str:
    """Run apt-get; return the end of what it says if it fails, or else nothing."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "--quiet=2", "-o", "DPkg::Lock::Timeout=120", *arguments]
    try:
        completed = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {LIMIT} seconds"
    return completed.stderr.strip()[-200:] or "apt-get failed" if completed.returncode else ""


def install(packages: list[str]) -> None:
    """Install packages, and print which were not installed, and why."""
    arguments = ("install", "--yes", "--no-install-recommends")
    apt_get("update")  # lists may be old, or not be there
    if not apt_get(*arguments, *packages):
        return
    for package in packages:  # one that a release of Debian lacks had stopped all others
        if reason := apt_get(*arguments, package):
            print(f"not installed: {package}: {reason}")


def main() -> None:
    """Install what is missing, and print what came of it."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-query") is None:
        print("no package is installed: there is no apt-get here")
    elif not (packages := missing(LIST.read_text("utf-8"))):
        print("no package is installed: all that tests need is here")
    elif os.geteuid() != 0:
        print(f"no package is installed, as only root could: {', '.join(packages)}")
    else:
        install(packages)
        print(f"installed: {', '.join(filter(is_installed, packages)) or 'none'}")


if __name__ == "__main__":
    main()
