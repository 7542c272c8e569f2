"""A set is published as one act, or in an order that is safe; what was interrupted goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import NormalizedName
from packaging.version import Version
from server.legacy import LegacyIndex, listed_files

from wheelfit.building.publishing.publication import publish_as_one, publish_in_order
from wheelfit.building.publishing.release_files import OutgoingFile, collect_files
from wheelfit.building.publishing.twine_sender import TwineSender
from wheelfit.errors import AttestationProblem, UploadRefused
from wheelfit.server.messages import Response
from wheelfit.sources.page import File
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import FileProblem, PolicyRefusal, UnexpectedStatus, Unreachable

ERRORS = [Unreachable("gone"), UnexpectedStatus("broken", status=500)]


class Waiting:
    """Hold files back, as an index does (it implements `Stages`, and gives what sends there)."""

    def __init__(self) -> None:
        self.published: dict[str, File] = {}
        self.waiting: dict[str, dict[str, str]] = {}
        self.sent: list[str] = []
        self.fails: dict[str, BaseException] = {}
        self.before: Callable[[str], None] = lambda _: None
        """Called before a file is taken, with its name."""

    def open_stage(self, lifetime: float) -> str:
        """Open one."""
        del lifetime
        name = f"stage{len(self.waiting)}"
        self.waiting[name] = {}
        return name

    def stages(self) -> list[dict[str, Any]]:
        """Return all."""
        return [
            {"id": name, "files": [{"filename": file, "sha256": files[file]} for file in files]}
            for name, files in self.waiting.items()
        ]

    def publish(self, stage: str) -> None:
        """Show all of it."""
        if stage not in self.waiting:
            raise FileProblem("the stage does not exist")
        files = self.waiting.pop(stage)
        for name, sha256 in files.items():
            self.published[name] = File(name, "https://x.example/", {"sha256": sha256})

    def drop(self, stage: str) -> None:
        """Forget one."""
        if stage not in self.waiting:
            raise FileProblem("the stage does not exist")
        del self.waiting[stage]

    def sender(self, stage: str) -> Sending:
        """Return what sends to a stage."""
        return Sending(self, stage)

    def run(self, files: tuple[OutgoingFile, ...]) -> Any:
        """Publish files."""
        return publish_as_one(files, self, self.sender, lambda: self.published, NO_PROGRESS)


class Sending:
    """Send to a stage (it implements `Sender`)."""

    def __init__(self, index: Waiting, stage: str) -> None:
        self._index = index
        self._stage = stage

    def send(self, file: OutgoingFile, progress: Callable[[int], None]) -> None:
        """Send a file."""
        name = file.filename
        self._index.before(name)
        if name in self._index.fails:
            raise self._index.fails.pop(name)
        if self._stage not in self._index.waiting:
            raise UnexpectedStatus("not found", status=404)
        others = [key for key in self._index.waiting if key != self._stage]
        is_there = name in self._index.published
        if is_there or any(name in self._index.waiting[key] for key in others):
            taken = {"reference": "name-taken", "message": "it waits", "where": name}
            raise UploadRefused("it waits", details=[taken])
        self._index.waiting[self._stage][name] = file.sha256
        self._index.sent.append(name)
        progress(file.size)

    def send_index_file(self, release: tuple[NormalizedName, Version], data: bytes) -> None:
        """Nobody sends one to an index that makes it."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of nothing."""


# --- as one act -----------------------------------------------------------------------------------


def test_all_are_shown_at_once(files: tuple[OutgoingFile, ...]) -> None:
    """B-52: nothing is published before everything was taken; the second time nothing is sent."""
    index = Waiting()
    index.before = lambda _: None if not index.published else pytest.fail("too early")
    act = index.run(files)
    assert act.sent == tuple(file.filename for file in files)
    assert set(index.published) == set(act.sent)
    index.before = lambda _: None
    again = index.run(files)
    assert again.sent == ()
    assert set(again.existing) == set(act.sent)
    assert index.waiting == {}


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_an_interruption_leaves_a_stage_to_go_on_with(
    files: tuple[OutgoingFile, ...], error: Exception
) -> None:
    """What was sent waits unseen, the error says what to do, and the same set goes on there."""
    index = Waiting()
    index.fails[files[1].filename] = error
    with pytest.raises(type(error)) as excinfo:
        index.run(files)
    assert "run the same command again" in str(excinfo.value.hint)  # type: ignore[attr-defined]
    assert index.published == {}
    act = index.run(files)
    assert act.is_resumed
    assert act.sent == tuple(file.filename for file in files[1:])
    assert index.sent == [file.filename for file in files]
    assert len(index.published) == 3


@pytest.mark.parametrize("error", [*ERRORS, KeyboardInterrupt()], ids=str)
def test_an_interruption_before_the_first_file_leaves_no_stage(
    files: tuple[OutgoingFile, ...], error: BaseException
) -> None:
    """A stage into which nothing came is dropped."""
    index = Waiting()
    index.fails[files[0].filename] = error
    with pytest.raises(type(error)):
        index.run(files)
    assert index.waiting == {}


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (2, UploadRefused("no", details=[{"reference": reference, "message": "", "where": ""}]))
        for reference in ("bad-record", "inconsistent-variants")
    ] + [(0, PolicyRefusal("a token for another project")), (1, AttestationProblem("no JSON"))],
)  # fmt: skip
def test_a_refusal_leaves_nothing(
    files: tuple[OutgoingFile, ...], number: int, error: Exception
) -> None:
    """After a refusal the stage is gone, since the files will be others."""
    index = Waiting()
    index.fails[files[number].filename] = error
    with pytest.raises(type(error)):
        index.run(files)
    assert index.waiting == {}
    assert index.published == {}


def test_stages_of_others_are_left_alone(files: tuple[OutgoingFile, ...]) -> None:
    """A stage with other files, or other content, is not published along with ours."""
    index = Waiting()
    index.waiting["theirs"] = {"other-1.0-py3-none-any.whl": "0"}
    index.waiting["mixed"] = {"slow-1.0-py3-none-any.whl": "1", "other.whl": "2"}
    act = index.run(files)
    assert not act.is_resumed
    assert set(index.waiting) == {"theirs", "mixed"}


def test_an_earlier_attempt_with_other_content_is_named(files: tuple[OutgoingFile, ...]) -> None:
    """A stage that holds names of ours is not ours to drop; the error says which one it is."""
    index = Waiting()
    index.waiting["earlier"] = {files[0].filename: "0" * 64}
    with pytest.raises(UploadRefused) as excinfo:
        index.run(files)
    assert "`wheelfit index stage drop earlier --at PLACE`" in str(excinfo.value.hint)
    assert set(index.waiting) == {"earlier"}
    assert index.published == {}


def test_two_who_publish_the_same_both_succeed(files: tuple[OutgoingFile, ...]) -> None:
    """Whoever finds the names in another stage joins that, or finds all of it published."""
    index = Waiting()
    acts: list[Any] = []

    def meanwhile(name: str) -> None:
        index.before = lambda _: None
        assert name == files[0].filename
        acts.append(index.run(files))  # somebody else does it all in this very moment

    index.before = meanwhile
    act = index.run(files)
    assert acts[0].sent == tuple(file.filename for file in files)
    assert act.sent == ()
    assert set(act.existing) == set(acts[0].sent)
    assert index.waiting == {}


def test_two_who_publish_different_things_are_told_apart(
    files: tuple[OutgoingFile, ...], tmp_path: Path
) -> None:
    """One wins; the other is told that the name has other content, and leaves nothing behind."""
    build_wheel(tmp_path / "other", "fast", "1.0", requires=["something"])
    theirs = collect_files([tmp_path / "other"]).files
    index = Waiting()

    def meanwhile(_: str) -> None:
        index.before = lambda _: None
        index.run(theirs)

    index.before = meanwhile
    with pytest.raises(UploadRefused, match="other content"):
        index.run(files)
    assert set(index.published) == {theirs[0].filename}
    assert index.waiting == {}


# --- one by one -----------------------------------------------------------------------------------


@pytest.fixture
def legacy(tmp_path: Path) -> Iterator[LegacyIndex]:
    """Give an index that shows every file as it comes."""
    pytest.importorskip("twine", reason="needs the extra `publish`")
    pytest.importorskip("python_multipart", reason="needs the extra `server`")
    with LegacyIndex(tmp_path / "index") as running:
        yield running


def in_order(
    legacy: LegacyIndex, files: tuple[OutgoingFile, ...], progress: Progress = NO_PROGRESS
) -> Any:
    """Publish files, and an index file."""
    sender = TwineSender(legacy.url, None, pause=lambda _: None)
    listed = partial(listed_files, legacy.folder, "fast")
    return publish_in_order(files, {files[0].release: b"{}"}, sender, listed, progress)


class Hurrying(Progress):
    """Somebody else who puts a file on an index just before ours comes (it is a `Progress`)."""

    def __init__(self, legacy: LegacyIndex, file: Path) -> None:
        self._legacy = legacy
        self._file = file

    def start(self, total: int | None) -> None:
        """Be quicker."""
        del total
        (self._legacy.folder / self._file.name).write_bytes(self._file.read_bytes())
        self._legacy.answers[self._file.name] = [Response.text(400, "File already exists.")]


def test_whoever_is_quicker_with_the_same_does_no_harm(
    legacy: LegacyIndex, files: tuple[OutgoingFile, ...]
) -> None:
    """A name that is taken meanwhile by the same content is there, and the rest goes on."""
    act = in_order(legacy, files, Hurrying(legacy, files[1].path))
    assert act.existing == (files[1].filename,)
    assert act.sent == (files[0].filename, files[2].filename)


def test_whoever_is_quicker_with_something_else_is_named(
    legacy: LegacyIndex, files: tuple[OutgoingFile, ...], tmp_path: Path
) -> None:
    """F-131: the conflict is the one that would have been seen before."""
    other = build_wheel(tmp_path / "other", "fast", "1.0", requires=["something"])
    with pytest.raises(UploadRefused, match="with other content: sha256") as excinfo:
        in_order(legacy, files, Hurrying(legacy, other))
    assert [detail["reference"] for detail in excinfo.value.details] == ["name-taken"]


def test_the_index_file_goes_last(legacy: LegacyIndex, files: tuple[OutgoingFile, ...]) -> None:
    """B-52: wheels for everybody, variants, and then the file that makes installers see those."""
    act = in_order(legacy, files)
    assert legacy.uploads == [*(file.filename for file in files), "fast-1.0-variants.json"]
    assert act.refused_index_files == ()
    assert (legacy.folder / "fast-1.0-variants.json").read_bytes() == b"{}"


def test_it_goes_on_where_it_stopped(legacy: LegacyIndex, files: tuple[OutgoingFile, ...]) -> None:
    """The error says how far it got; the second time only the rest is sent."""
    legacy.answers[files[1].filename] = [Response.text(500, "no")] * 4
    with pytest.raises(UnexpectedStatus) as excinfo:
        in_order(legacy, files)
    assert "1 of 3 files are published" in str(excinfo.value.note)
    legacy.uploads.clear()
    act = in_order(legacy, files)
    assert legacy.uploads == [*(file.filename for file in files[1:]), "fast-1.0-variants.json"]
    assert act.existing == (files[0].filename,)


def test_a_login_that_is_refused_meanwhile(
    legacy: LegacyIndex, files: tuple[OutgoingFile, ...]
) -> None:
    """A token may expire between two files: the error says how far it got."""
    legacy.answers[files[1].filename] = [Response.text(403, "expired")]
    with pytest.raises(PolicyRefusal) as excinfo:
        in_order(legacy, files)
    assert excinfo.value.note == "1 of 3 files are published; missing: 2"


def test_other_content_stops_everything(
    legacy: LegacyIndex, files: tuple[OutgoingFile, ...]
) -> None:
    """F-131: a name that is taken by other content is found before anything is sent."""
    build_wheel(legacy.folder, "fast", "1.0", requires=["something"])
    with pytest.raises(UploadRefused, match="other content"):
        in_order(legacy, files)
    assert legacy.uploads == []


def test_an_index_may_not_take_index_files(
    legacy: LegacyIndex, files: tuple[OutgoingFile, ...]
) -> None:
    """The wheels are published all the same, and the refusal is told."""
    legacy.answers["fast-1.0-variants.json"] = [Response.text(400, "what is that?")]
    act = in_order(legacy, files)
    assert len(act.sent) == 3
    assert "what is that?" in act.refused_index_files[0]
