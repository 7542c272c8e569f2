"""The server cuts connections, lies about lengths, and answers ranges with something else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random

import pytest
from faults.scene import Scene, snapshot

from wheelfit.server.folder import FolderIndex
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Application, Request, Response
from wheelfit.testing.wheels import build_wheel

SIZE = 1 << 21
ALWAYS = 10**9


@dataclass(frozen=True, slots=True)
class Case:
    """Hold a request for a wheel, and how a sound server would answer it."""

    request: Request
    answer: Response
    number: int
    """How many there were before it."""
    again: Application
    """What a sound server answers to another request."""

    def cut(self, percent: int) -> Response:
        """Return the answer, of which only a part comes."""
        return replace(self.answer, body=self._begin(self.answer.length * percent // 100))

    def _begin(self, count: int) -> Iterator[bytes]:
        for piece in self.answer.body:
            yield piece[:count]
            count -= len(piece)
            if count <= 0:
                return

    def with_headers(self, **headers: str) -> Case:
        """Return the same case with other headers of the answer; an empty one goes."""
        merged = {
            **self.answer.headers,
            **{name.replace("_", "-"): headers[name] for name in headers},
        }
        kept = {name: value for name, value in merged.items() if value}
        return replace(self, answer=replace(self.answer, headers=kept))


Misbehaviour = Callable[[Case], Response]


def cut(percent: int, *, times: int) -> Misbehaviour:
    """Cut the first answers after a part of what they should send."""
    return lambda case: case.cut(percent) if case.number < times else case.answer


def announce(more: int) -> Misbehaviour:
    """Announce another length than that of the body."""
    return lambda case: replace(case.answer, length=case.answer.length + more)


def forget_ranges(case: Case) -> Response:
    """Cut once, then answer every request for a range with the whole, as some proxies do."""
    if case.number == 0:
        return case.cut(50)
    headers = {name: case.request.headers[name] for name in case.request.headers if name != "range"}
    return case.again(replace(case.request, headers=headers))


def other_offset(case: Case) -> Response:
    """Cut once, then answer requests for a range with another one, and say so."""
    if case.answer.status != 206:
        return case.cut(50) if case.number == 0 else case.answer
    first, _, last = case.request.headers["range"].removeprefix("bytes=").partition("-")
    moved = f"{max(0, int(first) - 7)}-{last and int(last) - 7}" if first else f"-{int(last) + 7}"
    headers = {**case.request.headers, "range": f"bytes={moved}"}
    return case.again(replace(case.request, headers=headers))


def false_offset(case: Case) -> Response:
    """Do the same, and say that it were the right one."""
    other = other_offset(case)
    return replace(other, headers=case.answer.headers) if case.answer.status == 206 else other


def other_tag(case: Case) -> Response:
    """Cut once, and give every answer an entity tag of its own."""
    case = case.with_headers(etag=f'"{case.number}"')
    return case.cut(50) if case.number == 0 else case.answer


def changed(case: Case) -> Response:
    """Cut once; afterwards the file is another one."""
    if case.number == 0:
        return case.cut(50)
    body = bytes(byte ^ 1 for piece in case.answer.body for byte in piece)
    return replace(case.with_headers(etag='"other"').answer, body=(body,))


MISBEHAVIOURS: tuple[tuple[str, Misbehaviour, set[int]], ...] = (
    ("more announced", announce(10), {0, 5}),
    ("less announced", announce(-10), {0, 4, 5}),
    ("ranges forgotten", forget_ranges, {0}),
    ("another range", other_offset, {0, 4, 5}),
    ("another range under a false name", false_offset, {0, 4, 5}),
    ("another tag", other_tag, {0}),
    ("another file", changed, {4, 5}),
)
_LIES = {how for _, how, _ in MISBEHAVIOURS}


class UnrulyServer(LoopbackServer):
    """Serve a folder of wheels, which are sent as one likes.

    :param folder: has the wheels.
    """

    def __init__(self, folder: Path) -> None:
        self._index = FolderIndex(folder)
        self._misbehave: Misbehaviour | None = None
        self._numbers = count()
        super().__init__(self._answer)

    def behave(self, how: Misbehaviour | None = None) -> None:
        """Misbehave from now on, or not any more."""
        self._misbehave, self._numbers = how, count()

    def _answer(self, request: Request) -> Response:
        answer = self._index(request)
        is_wheel = request.path.endswith(".whl") and request.method == "GET"
        if not is_wheel or self._misbehave is None:
            return answer
        return self._misbehave(Case(request, answer, next(self._numbers), self._index))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnrulyServer]:
    """Serve a wheel that does not shrink."""
    folder = tmp_path_factory.mktemp("large")
    files: dict[str, bytes | str] = {"large/data.bin": Random(1).randbytes(SIZE)}
    build_wheel(folder, "large", "1.0", files={**files, "large/__init__.py": ""})
    with UnrulyServer(folder) as served:
        yield served
        assert not served.failures


@pytest.fixture
def scene(server: UnrulyServer, tmp_path: Path) -> Scene:
    """Offer an environment and a cache, both empty."""
    return Scene(tmp_path / "scene", f"{server.origin}/simple/")


def install_through(
    server: UnrulyServer, scene: Scene, told: Iterable[tuple[str, Misbehaviour, set[int]]]
) -> list[str]:
    """Install once through each, then once more from a sound server; return what went wrong."""
    broken = []
    server.behave()
    scene.keep("before")
    old = snapshot(scene.environment)
    scene.must("install", "large")
    new = snapshot(scene.environment)
    for name, misbehave, codes in told:
        scene.back_to("before")
        server.behave(misbehave)
        first = scene.run("install", "large", "--retries", "2", "--timeout", "10")
        if first.code not in codes or "Traceback" in first.err:
            broken.append(f"{name}: {first.code} {first.err}")
        right = new if first.code == 0 else old
        if snapshot(scene.environment) != right or list(scene.temporary.iterdir()):
            broken.append(f"{name}: after exit {first.code} something is left over")
        server.behave()
        second = scene.run("install", "large")
        if second.code or snapshot(scene.environment) != new:
            broken.append(f"{name}: then, {second.code} {second.err}")
        if first.code or misbehave in _LIES:
            verified = scene.run("cache", "verify", "--cache-dir", scene.cache)
            if verified.code:
                broken.append(f"{name}: in the cache, {verified.out} {verified.err}")
    return broken


def test_lies(server: UnrulyServer, scene: Scene) -> None:
    """A server that lies gets nothing wrong installed, nor into the cache."""
    broken = install_through(server, scene, MISBEHAVIOURS)
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("once", "always"),
    [
        ((0, 35, 99), (0, 60)),
        pytest.param(range(100), range(0, 100, 5), marks=pytest.mark.faults_long),
    ],
    ids=["some", "all"],
)
def test_cuts(
    server: UnrulyServer,
    scene: Scene,
    figures: Callable[[str], None],
    once: Sequence[int],
    always: Sequence[int],
) -> None:
    """A connection that is cut once costs nothing but time; one that always is, an error."""
    scene.variables["PIP_RESUME_RETRIES"] = "2"  # the usual five wait longer each time
    told = [(f"cut once at {n} %", cut(n, times=1), {0}) for n in once]
    told += [(f"cut always at {n} %", cut(n, times=ALWAYS), {0, 5}) for n in always]
    broken = install_through(server, scene, told)
    figures(f"cut of the network     {len(told)} downloads, {len(broken)} broken")
    assert not broken, "\n".join(broken)
