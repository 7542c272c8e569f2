"""Drive uv for the conformance suite: ``python uv_adapter.py --uv PATH``.

uv knows variants behind ``--preview-features wheel-variants``. It shows only what it installs:
so it really installs, into throw-away folders; then what it took is taken from the index and it
installs again, until nothing of the release is left. That gives its whole order.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suite.locks import lock_text
from suite.releases import Index, Release, build_wheel, label_of
from suite.serving import Answer, Request, invalid, result, serve, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

AREAS = [
    "filename", "document", "compatibility", "ordering", "marker", "selection", "degradation",
    "provider", "abi", "lock",
]  # fmt: skip
PLATFORM, PYTHON = "x86_64-manylinux_2_28", "3.13"
"""The target of every question that names no other."""
FALLBACK = "0.0.1"
"""Version of the plain wheel that shows that nothing of a release is left."""
MOST_ROUNDS = 16

Given = dict[str, Any]
INDEXED = frozenset(["select", "install", "dependencies", "order-labels", "is-compatible"])
ONE_BY_ONE = frozenset(["parse-wheel-filename", "given-wheel", "select-from-lock", "resolve"])


def _why_not(request: Request) -> str | None:
    """Return why uv cannot be asked, or None."""
    given = request["input"]
    question = request["question"]
    if question not in INDEXED | ONE_BY_ONE:
        return "uv does not show this"
    target = given.get("target", {})
    if "versions" in target:
        return "uv has no provider for the versions of other packages"
    if "supported" in target:
        return "uv takes no list of what is supported"
    if given.get("options"):
        return "uv has no such option"
    if "machine" in target:
        return "uv assumes features for another machine"
    return None


class _Uv:
    """Run uv with nothing of the user's view."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._count = 0

    def run(self, *words: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Return the exit status and what was said."""
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        done = subprocess.run(
            [self._program, *words],
            env={**kept, "HOME": str(self._folder), "NO_COLOR": "1", **(environment or {})},
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return done.returncode, done.stderr

    def version(self) -> str:
        """Return its version."""
        done = subprocess.run(
            [self._program, "--version"], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.split()[1]

    def new_folder(self) -> Path:
        """Return a folder that is new."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder

    def install(self, *words: str, target: Mapping[str, Any]) -> tuple[Path, str | None]:
        """Install; return where, and what was said when that failed."""
        place = self.new_folder()
        options = ["--no-config", "--no-progress", "--preview-features", "wheel-variants"]
        options += ["--cache-dir", str(self._folder / "cache"), "--python", sys.executable]
        options += ["--target", str(place)]
        if not target.get("here"):
            options += ["--python-platform", PLATFORM, "--python-version", PYTHON]
        status, said = self.run(
            "pip", "install", *options, *words, environment=target.get("environment")
        )
        return place, said if status else None


def _taken(place: Path, name: str) -> str | None:
    """Return the name of the wheel that was installed of a project."""
    path = place / name / "filename"
    return path.read_text(encoding="utf-8") if path.exists() else None


class _Releases:
    """Ask about releases that an index or a folder offers."""

    def __init__(self, uv: _Uv) -> None:
        self._uv = uv

    def answers(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Answer]]:
        rows = [(one, _as_selection(one, number)) for number, one in enumerate(requests)]
        rows.sort(key=lambda row: _group(*row))
        for _, group in groupby(rows, key=lambda row: _group(*row)):
            members = list(group)
            releases = [Release.of(given) for _, given in members]
            if members[0][1].get("from") == "folder":
                yield from self._in_folder(members, releases)
            else:
                yield from self._on_index(members, releases)

    def _on_index(
        self, rows: list[tuple[Request, Given]], releases: list[Release]
    ) -> Iterator[tuple[Request, Answer]]:
        served = [_with_fallback(release) for release in releases]
        served += [
            Release.of({"wheels": [other]})
            for _, given in rows
            for other in given.get("others", ())
        ]
        target = rows[0][1].get("target", {})
        with Index(served) as index:
            words = ["--index-url", index.url]

            def take(names: list[str]) -> dict[str, str | None]:
                # The index changes from round to round.
                return self._take(names, ["--refresh", *words], target)

            if rows[0][0]["question"] == "dependencies":
                yield from self._dependencies(rows, releases, words, target)
                return
            order = self._order(rows, releases, take, index.hidden)
        for (request, _), release in zip(rows, releases, strict=True):
            yield request, _answer(request, order[release.name])

    def _in_folder(
        self, rows: list[tuple[Request, Given]], releases: list[Release]
    ) -> Iterator[tuple[Request, Answer]]:
        shelf = self._uv.new_folder()
        for release in map(_with_fallback, releases):
            release.write(shelf)
        words = ["--no-index", "--find-links", str(shelf)]
        target = rows[0][1].get("target", {})

        class Hidden(set[str]):
            def add(self, name: str) -> None:
                (shelf / name).unlink()

        def take(names: list[str]) -> dict[str, str | None]:
            return self._take(names, ["--refresh", *words], target)

        order = self._order(rows, releases, take, Hidden())
        for (request, _), release in zip(rows, releases, strict=True):
            yield request, _answer(request, order[release.name])

    def _order(
        self,
        rows: list[tuple[Request, Given]],
        releases: list[Release],
        take: Any,
        hidden: set[str],
    ) -> dict[str, list[str] | str]:
        """Return what uv takes of each project, best first, or what it says instead."""
        order: dict[str, list[str] | str] = {release.name: [] for release in releases}
        left = [release.name for release in releases]
        once = {
            release.name
            for (request, _), release in zip(rows, releases, strict=True)
            if request["question"] in ("install", "is-compatible")
        }
        for _ in range(MOST_ROUNDS):
            if not left:
                break
            for name, filename in take(left).items():
                found = order[name]
                if filename is None or filename.startswith(f"{name}-{FALLBACK}-"):
                    left.remove(name)
                elif " " in filename:
                    order[name] = filename
                    left.remove(name)
                elif isinstance(found, list):
                    found.append(filename)
                    hidden.add(filename)
                    if name in once:
                        left.remove(name)
        return order

    def _take(
        self, names: list[str], words: list[str], target: Mapping[str, Any]
    ) -> dict[str, str | None]:
        """Install; where one project spoils it for the others, in halves."""
        place, said = self._uv.install(*words, *names, target=target)
        if said is None:
            return {name: _taken(place, name) for name in names}
        if len(names) == 1:
            return {names[0]: f"uv: {' '.join(said.split())}"}
        middle = len(names) // 2
        return {
            **self._take(names[:middle], words, target),
            **self._take(names[middle:], words, target),
        }

    def _dependencies(
        self,
        rows: list[tuple[Request, Given]],
        releases: list[Release],
        words: list[str],
        target: Mapping[str, Any],
    ) -> Iterator[tuple[Request, Answer]]:
        for (request, given), release in zip(rows, releases, strict=True):
            place, said = self._uv.install(*words, release.name, target=target)
            taken = _taken(place, release.name)
            if said is not None:
                yield request, invalid(" ".join(said.split()))
            elif taken is None or taken.startswith(f"{release.name}-{FALLBACK}-"):
                yield request, invalid("uv does not take this release")
            else:
                others = [other.split("-")[0] for other in given.get("others", ())]
                found = sorted(name for name in others if _taken(place, name))
                yield request, result(dependencies=found)


def _with_fallback(release: Release) -> Release:
    filename = f"{release.name}-{FALLBACK}-py3-none-any.whl"
    plain = Release.of({"wheels": [{"filename": filename}]})
    return Release(release.name, (*release.files, *plain.files), release.page)


def _as_selection(request: Request, number: int) -> Given:
    given = request["input"]
    if "wheels" in given:
        return dict(given)
    labels = given["document"]["variants"]
    name = f"labels{number}"
    return {**given, "wheels": [f"{name}-1.0-py3-none-any-{label}.whl" for label in labels]}


def _group(request: Request, given: Given) -> str:
    parts = [given.get("target"), given.get("from")]
    return json.dumps([request["question"] == "dependencies", *parts], sort_keys=True)


def _answer(request: Request, order: list[str] | str) -> Answer:
    question = request["question"]
    if question == "is-compatible":
        return invalid(order) if isinstance(order, str) else result(compatible=bool(order))
    if isinstance(order, str):
        return invalid(order)
    if question == "order-labels":
        return result(order=[label_of(filename) for filename in order])
    if question == "install":
        return result(installed=order[0] if order else None)
    return result(partial=True, chosen=order[0] if order else None, order=order)


# --- single files -----------------------------------------------------------------------------


def _parse_wheel_filename(uv: _Uv, given: Given) -> Answer:
    """Say whether uv takes a text for the name of a wheel; the parts do not show."""
    if "/" in given["filename"] or "\n" in given["filename"]:
        return unsupported("such a name cannot be given to uv")
    path = uv.new_folder() / given["filename"]
    path.write_bytes(b"")
    status, said = uv.run(
        "pip", "install", "--no-config", "--preview-features", "wheel-variants", "--dry-run",
        "--no-deps", "--no-index", "--python", sys.executable, "--target", str(path.parent / "x"),
        str(path),
    )  # fmt: skip
    # The file is empty; who tries to open it has accepted the name.
    if status and "Failed to read from zip file" not in said:
        return invalid(" ".join(said.split()))
    return result(partial=True)


def _given_wheel(uv: _Uv, given: Given) -> Answer:
    path = uv.new_folder() / given["filename"]
    path.write_bytes(build_wheel(given["filename"], document=_own(given)))
    _, said = uv.install("--no-index", str(path), target=given.get("target", {}))
    return result(accepted=said is None)


def _own(given: Given) -> object:
    return given.get("document")


def _select_from_lock(uv: _Uv, given: Given) -> Answer:
    """Install from a lock whose wheels lie beside it."""
    folder = uv.new_folder()

    def locate(name: str) -> Given:
        release = Release.of({"wheels": [name], "document": given.get("document"), "index": None})
        release.write(folder)
        return {"path": name, "hashes": {"sha256": release.files[0].sha256}}

    (folder / "pylock.toml").write_text(lock_text(given, locate), encoding="utf-8")
    words = ["--preview-features", "pylock", "-r", str(folder / "pylock.toml")]
    place, said = uv.install(*words, target=given.get("target", {}))
    if said is not None:
        return invalid(" ".join(said.split()))
    found = {package["name"]: _taken(place, package["name"]) for package in given["packages"]}
    return result(chosen={name: filename for name, filename in found.items() if filename})


def _resolve(uv: _Uv, given: Given) -> Answer:
    releases = [Release.of(one) for one in given["projects"]]
    with Index(releases) as index:
        place, said = uv.install(
            "--index-url", index.url, *given["request"], target=given.get("target", {})
        )
    if said is not None:
        return invalid(" ".join(said.split()))
    found = {release.name: _taken(place, release.name.replace("-", "_")) for release in releases}
    return result(chosen={name: filename for name, filename in found.items() if filename})


SINGLE = {
    "parse-wheel-filename": _parse_wheel_filename,
    "given-wheel": _given_wheel,
    "select-from-lock": _select_from_lock,
    "resolve": _resolve,
}


def main() -> None:
    """Serve the runner."""
    parser = argparse.ArgumentParser(description="Drive uv for the conformance suite.")
    parser.add_argument("--uv", default="uv", help="the program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uv = _Uv(options.uv, Path(folder))

        def answers(requests: list[Request]) -> Iterator[tuple[Request, Answer]]:
            asked = []
            for request in requests:
                why = _why_not(request)
                if why is not None:
                    yield request, unsupported(why)
                elif request["question"] in SINGLE:
                    yield request, SINGLE[request["question"]](uv, request["input"])
                elif request["question"] in INDEXED:
                    asked.append(request)
                else:
                    yield request, unsupported("uv does not show this")
            yield from _Releases(uv).answers(asked)

        serve("uv", uv.version(), AREAS, answers)


if __name__ == "__main__":
    main()
