"""Make the folder of a bundle: choose, fetch, write beside, read back, put in its place."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote as shell_quote
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name

from wheelfit import __version__
from wheelfit.cli.downloads import several_at_once
from wheelfit.cli.hosts import host_text
from wheelfit.cli.machine import options_in_effect
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.host_file import HostFile
from wheelfit.core.index_metadata import combine, disagreement, read_wheel_document
from wheelfit.core.sizes import size_in_words
from wheelfit.errors import (
    DamagedBundle,
    Fault,
    FileProblem,
    IntegrityError,
    InvalidLock,
    InvalidWheel,
    NoFit,
    TooLarge,
    UserError,
)
from wheelfit.lock.bundles.manifest import (
    FOLDERS,
    MANIFEST,
    BundledFile,
    BundledHost,
    Manifest,
    write_manifest,
)
from wheelfit.lock.bundles.reduction import Kept, index_files, marker_of, reduced
from wheelfit.lock.bundles.verification import load_manifest, strangers, verify
from wheelfit.lock.document import write_lock
from wheelfit.lock.repository import LockedRepository
from wheelfit.platforms.scrubbing import Scrubber
from wheelfit.platforms.surroundings import Surroundings
from wheelfit.resolve.acceleration import accelerations, refusal
from wheelfit.resolve.candidates import ChoicePolicy
from wheelfit.server.pages import write_site
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.urls import file_url, redact
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.dist_info import header_value

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.cli.locks import OpenedLock
    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.progress import Bars
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import WheelFilename
    from wheelfit.lock.document import Lock
    from wheelfit.lock.selection import LockCandidates, LockSelection
    from wheelfit.platforms.features import Detection
    from wheelfit.sources.repository import Files
    from wheelfit.sources.size import FileSize

__all__ = [
    "Contents",
    "Everything",
    "ForHosts",
    "HostChoice",
    "Place",
    "Wanted",
    "check_accelerators",
    "check_download",
    "make",
    "sizes_of",
    "words_in_effect",
]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hold one wheel that shall be in the bundle."""

    filename: WheelFilename
    file: File
    """Where it is now."""
    files: Files
    """Who fetches it from there."""
    confirm: Callable[[bytes | None], str | None]
    """Says of its ``variant.json`` why it is not what it was chosen for (F-93)."""


class HostChoice:
    """Choose what one machine gets.

    :param name: of its host file in the bundle.
    :param machine: the machine.
    :param candidates: what chooses for it.
    :raises NoFit: it cannot be served; says which it is.
    """

    def __init__(self, name: str, machine: ChosenMachine, candidates: LockCandidates) -> None:
        self.name = name
        self.machine = machine
        self.candidates = candidates
        self.selection: LockSelection
        """What it gets."""
        self.select()

    def select(self) -> None:
        """Choose, or choose again.

        :raises NoFit: the machine cannot be served; says which it is.
        """
        with _naming(self.machine.name):
            self.selection = self.candidates.select()

    @property
    def wanted(self) -> dict[str, Wanted]:
        """The wheels by file name."""
        candidates = self.candidates.candidates

        return {
            pin.filename.text: Wanted(
                pin.filename,
                pin.file,
                candidates.repository,
                partial(candidates.confirm, pin.choice),
            )
            for pin in self.selection.resolution().pins
        }

    def described(self, environ: Mapping[str, str]) -> HostFile:
        """Return its host file: all that the choice was made by, so that no one need be asked.

        :param environ: the environment of the process; names in it are taken out.
        """
        machine, host = self.machine, self.machine.host
        scrub = Scrubber.of(Surroundings(environ=environ)).text
        # P-73; options are in the manifest.
        overrides = [text for text in machine.overrides if not text.startswith("--")]
        if host is None:
            asked = {
                name: machine.switched_off(name) or machine.detect(name)
                for name in machine.namespaces
            }
            answers = {**self._answers(), **{n: a for n, a in asked.items() if a is not None}}
            file = HostFile.from_detections(
                answers.values(),
                created_by=f"wheelfit {__version__}",
                origin="this machine",
                overrides=overrides,
                scrub=scrub,
            )
            stated: Mapping[str, str] = {}
        else:
            file, stated = host.file, host.file.environment
            known = {provider.namespace for provider in file.providers}
            more = [one for name, one in self._answers().items() if name not in known]
            added = HostFile.from_detections(more, overrides=overrides, scrub=scrub)
            file = replace(
                file,
                providers=(*file.providers, *added.providers),
                origin=file.origin or host.record,
                overrides=tuple(dict.fromkeys((*file.overrides, *added.overrides))),
            )
        whole = file.with_target(machine.target)
        # The kernel of whoever makes the bundle says nothing, and would make every bundle another.
        kept = {
            name: value
            for name, value in whole.environment.items()
            if name in stated or name not in {"platform_release", "platform_version"}
        }
        return replace(whole, environment=kept)

    def _answers(self) -> dict[str, Detection]:
        """Return what others than the host file said of the chosen releases."""
        return {
            namespace: detection
            for one in self.selection.chosen
            if one.choice.support is not None
            for namespace, detection in sorted(one.choice.support.detections.items())
            if detection.step in {"built-in", "plugin"}
        }


class ForHosts:
    """Choose what some machines need of a lock.

    :param opened: the lock.
    :param names: the machines as the user calls them; None is this one.
    :raises NoFit: one cannot be served; says which.
    """

    def __init__(self, opened: OpenedLock, names: Sequence[str | None]) -> None:
        self._opened = opened
        arguments = opened.arguments
        self.hosts: list[HostChoice] = []
        for name in dict.fromkeys(names):
            machine = opened.machine(name)
            with _naming(machine.name):
                candidates = opened.candidates(machine)
            file = _host_name(machine, {host.name.casefold() for host in self.hosts})
            self.hosts.append(HostChoice(file, machine, candidates))
        pylock = opened.lock.pylock
        self.extras = _spelled(arguments.extra, pylock.extras or ())
        default = tuple(pylock.default_groups or ())
        known = (*(pylock.dependency_groups or ()), *default)
        asked = arguments.group
        self.groups = tuple(sorted(default)) if asked is None else _spelled(asked, known)
        self.notes = tuple(
            dict.fromkeys(note for host in self.hosts for note in host.selection.notes)
        )

    @property
    def policy(self) -> ChoicePolicy:
        """What the wheels are chosen by, for every machine the same."""
        return self.hosts[0].candidates.candidates.policy

    @property
    def wanted(self) -> dict[str, Wanted]:
        """The wheels by file name, each once.

        :raises InvalidLock: two that are not the same have one name.
        """
        found: dict[str, Wanted] = {}
        for host in self.hosts:
            for one in host.wanted.values():
                _add(found, one, self._opened.lock.where)
        return found

    def refuse(self, filename: str, reason: str) -> None:
        """Let another wheel take the place of one that is not what it was chosen for (F-93)."""
        for host in self.hosts:
            one = host.wanted.get(filename)
            if one is not None:
                host.candidates.candidates.reject(one.filename, reason)
                host.select()

    def kept(self) -> dict[int, Kept]:
        """Return what stays of the lock, by the place of the entry."""
        places = {id(package): index for index, package in enumerate(self._opened.lock.packages)}
        names: dict[int, set[str]] = {}
        documents: dict[int, dict[str, VariantDocument]] = {}
        for host in self.hosts:
            for one in host.selection.chosen:
                index = places[id(one.package)]
                if one.choice.selection.chosen is not None:
                    names.setdefault(index, set()).add(one.choice.selection.chosen.text)
                if one.choice.metadata.document is not None:
                    documents.setdefault(index, {})[host.name] = one.choice.metadata.document
        found = {}
        for index in sorted(names):
            package = self._opened.lock.packages[index]
            document = package.document
            if document is None and index in documents:  # F-122: each looked at its own wheels
                document = combine(documents[index].items())
            found[index] = Kept(package, frozenset(names[index]), document)
        return found

    def lock(self, files: Mapping[str, BundledFile]) -> Lock:
        """Return the lock of the bundle.

        :param files: the wheels.
        """
        markers = [marker_of(host.machine.target) for host in self.hosts]
        return reduced(
            self._opened.lock,
            self.kept(),
            files,
            extras=self.extras,
            groups=self.groups,
            environments=markers if all(markers) else None,
        )


class Everything:
    """Take every wheel of a lock, whoever it fits.

    :param opened: the lock.
    """

    def __init__(self, opened: OpenedLock) -> None:
        self.hosts: list[HostChoice] = []
        self.extras: tuple[str, ...] = ()
        self.groups: tuple[str, ...] = ()
        self._opened = opened
        self._out: set[str] = set()
        packages = opened.lock.packages
        self.notes = tuple(
            f"{package.name} is left out: only a {package.kind} is locked, and nothing is built"
            for package in packages
            if not package.wheels
        )

    @property
    def policy(self) -> ChoicePolicy:
        """Nothing is chosen."""
        return ChoicePolicy()

    @property
    def wanted(self) -> dict[str, Wanted]:
        """The wheels by file name, each once.

        :raises InvalidLock: two that are not the same have one name.
        """
        folder = self._opened.path.absolute().parent
        found: dict[str, Wanted] = {}
        for package in self._opened.lock.packages:
            files = LockedRepository(
                [package],
                name=self._opened.lock.where,
                files=self._opened.repository,
                folder=folder,
            )
            page = files.project(package.name)
            by_name = {file.filename: file for file in (page.files if page else ())}
            for wheel in package.wheels:
                text = wheel.filename.text
                if text not in self._out:
                    confirm = _confirming(package.document, wheel.filename)
                    one = Wanted(wheel.filename, by_name[text], files, confirm)
                    _add(found, one, self._opened.lock.where)
        return found

    def refuse(self, filename: str, reason: str) -> None:
        """Leave out a wheel that the lock describes wrongly (F-93)."""
        self._out.add(filename)
        self.notes = (*self.notes, f"{filename} is left out: {reason}")

    def kept(self) -> dict[int, Kept]:
        """Return what stays of the lock, by the place of the entry."""
        found = {}
        for index, package in enumerate(self._opened.lock.packages):
            names = frozenset(wheel.filename.text for wheel in package.wheels) - self._out
            if names:
                found[index] = Kept(package, names, package.document)
        return found

    def lock(self, files: Mapping[str, BundledFile]) -> Lock:
        """Return the lock of the bundle.

        :param files: the wheels.
        """
        extras = self._opened.lock.pylock.extras or ()
        return reduced(self._opened.lock, self.kept(), files, extras=extras)


@dataclass(frozen=True, slots=True)
class Place:
    """Hold where a bundle goes, and what is there."""

    folder: Path
    earlier: Manifest | None = None
    """Of the bundle that is there; None: there is none."""

    @classmethod
    def of(cls, name: str, *, update: bool) -> Place:
        """Look at where a bundle shall go.

        :param name: the folder as the user names it.
        :param update: whether an earlier bundle may give way.
        :raises FileProblem: something else is there, or it may not give way.
        """
        folder = Path(os.path.realpath(name))
        if not folder.name or not folder.parent.is_dir():
            raise FileProblem("there is no folder to put the bundle into", where=name)
        if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
            return cls(folder)
        if not (folder / MANIFEST).is_file():
            raise FileProblem(
                "it is there already, and it is no bundle", where=name, hint="name another folder"
            )
        if not update:
            raise FileProblem(
                "the bundle is there already",
                where=name,
                hint="--update makes it anew, and fetches only what it lacks",
            )
        try:
            manifest = load_manifest(folder)
        except DamagedBundle as error:
            raise FileProblem(
                "it is there already, and its manifest cannot be used",
                where=name,
                note=error.note,
                hint="name another folder, or move this one away",
            ) from None
        others = sorted(strangers(folder, manifest))
        if others:
            raise FileProblem(
                "the folder has files that are none of the bundle's",
                where=name,
                note="\n".join(others[:20]),
                hint="move them away; --update replaces the whole folder",
            )
        return cls(folder, manifest)

    def find(self, wanted: Wanted) -> Wanted | None:
        """Return the same wheel of the bundle that is there; None if it has none.

        :param wanted: a wheel with the hashes that it must have.
        """
        promised = None if self.earlier is None else self.earlier.wheels.get(wanted.filename.text)
        if promised is None or not wanted.file.hashes:
            return None
        path = self.folder / "wheels" / wanted.filename.text
        if path.is_symlink() or not path.is_file():
            return None
        return replace(wanted, file=replace(wanted.file, url=file_url(path)))


def check_accelerators(plan: ForHosts | Everything) -> None:
    """Refuse a build without an accelerator where others of the lock have one.

    :param plan: what is to be in the bundle.
    :raises NoAccelerator: a machine would get such a build; says which.
    """
    for host in plan.hosts:
        resolution = host.selection.resolution()
        refused = refusal(accelerations(resolution, host.candidates.candidates))
        if refused is not None:
            with _naming(host.machine.name):
                raise refused


def sizes_of(plan: ForHosts | Everything, place: Place, bars: Bars) -> dict[str, FileSize]:
    """Return how large each wheel is, and whether it must be fetched; nothing is fetched for it.

    :param plan: what is to be in the bundle.
    :param place: where it goes.
    :param bars: would end it all.
    """
    wanted = plan.wanted

    def size(one: Wanted) -> FileSize:
        there = place.find(one) or one
        return there.files.size(there.file)

    found = several_at_once(list(wanted.values()), size, bars)
    return dict(zip(wanted, found, strict=True))


def check_download(sizes: Mapping[str, FileSize], most: int) -> None:
    """Refuse to fetch more than is allowed.

    :param sizes: of `sizes_of`; what nobody knows does not count.
    :param most: bytes.
    :raises TooLarge: it would be more.
    """
    total = sum(size.download or 0 for size in sizes.values())
    if total <= most:
        return
    unknown = any(size.download is None for size in sizes.values())
    largest = sorted(sizes, key=lambda name: (-(sizes[name].download or 0), name))[:5]
    raise TooLarge(
        f"{'at least ' if unknown else ''}{size_in_words(total)} would be downloaded, and "
        f"{size_in_words(most)} are allowed (--max-download)",
        note="\n".join(f"{name}: {size_in_words(sizes[name].download or 0)}" for name in largest),
        hint="allow more, or make it for fewer machines; --dry-run shows every size",
    )


@dataclass(frozen=True, slots=True)
class Contents:
    """Say what is in a bundle that was made."""

    manifest: Manifest
    reused: frozenset[str]
    """Wheels that were taken from the bundle that was there before."""


def make(plan: ForHosts | Everything, opened: OpenedLock, place: Place, bars: Bars) -> Contents:
    """Make a bundle; its folder is complete at the end, or as it was before.

    :param plan: what is to be in it.
    :param opened: the lock.
    :param place: where it goes.
    :param bars: shows how it gets on.
    :raises FileProblem: it cannot be written.
    :raises WheelfitError: a wheel cannot be had, or is not what was promised.
    """
    try:
        stage = Path(tempfile.mkdtemp(prefix=f".{place.folder.name}.", dir=place.folder.parent))
        try:
            contents = _Making(plan, opened, place, stage, bars).run()
            _open_up(stage)
            opened.output.say("reading the bundle back", "dim")
            verify(stage, contents.manifest, opened.environment.target(), plan.policy)
            _put_in_place(stage, place)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise FileProblem(
            f"the bundle cannot be written: {error.strerror or type(error).__name__}",
            where=str(place.folder),
            hint="nothing was changed",
        ) from None
    return contents


class _Making:
    """Write the files of a bundle."""

    def __init__(
        self,
        plan: ForHosts | Everything,
        opened: OpenedLock,
        place: Place,
        stage: Path,
        bars: Bars,
    ) -> None:
        self._plan = plan
        self._opened = opened
        self._place = place
        self._stage = stage
        self._bars = bars
        self._metadata: dict[str, bytes] = {}
        self._reused: set[str] = set()
        self._files: dict[str, BundledFile] = {}

    def run(self) -> Contents:
        for name in FOLDERS:
            (self._stage / name).mkdir()
        self._fetch()
        wheels = self._wheels()
        for host in self._plan.hosts:
            text = host_text(host.described(self._opened.environ))
            self._write(f"hosts/{host.name}.toml", text.encode())
        for filename in wheels:
            self._write(f"wheels/{filename}.metadata", self._metadata[filename])
        self._write_index(wheels)
        self._write("pylock.toml", write_lock(self._plan.lock(wheels)))
        self._write("README.txt", self._readme().encode())
        hosts = tuple(
            BundledHost(host.name, tuple(sorted(host.wanted))) for host in self._plan.hosts
        )
        manifest = Manifest(
            dict(sorted(self._files.items())),
            hosts,
            hashlib.sha256(self._opened.path.read_bytes()).hexdigest(),
            self._plan.extras,
            self._plan.groups,
            words_in_effect(self._opened.arguments),
        )
        (self._stage / MANIFEST).write_bytes(write_manifest(manifest))
        return Contents(manifest, frozenset(self._reused & wheels.keys()))

    def _fetch(self) -> None:
        """Fetch what is wanted until all of it is what it was chosen for (F-93)."""
        folder = self._stage / "wheels"
        while True:
            wanted = self._plan.wanted
            missing = [one for name, one in wanted.items() if name not in self._metadata]
            reasons = several_at_once(missing, self._fetch_one, self._bars)
            refused = [
                (one.filename.text, reason)
                for one, reason in zip(missing, reasons, strict=True)
                if reason is not None
            ]
            for filename, reason in refused:
                self._opened.output.warn(f"{filename} is not taken: {reason}")
                self._plan.refuse(filename, reason)
            if not refused:
                break
        for path in folder.iterdir():
            if path.name not in wanted:  # another one took its place
                path.unlink()

    def _fetch_one(self, wanted: Wanted) -> str | None:
        there = self._place.find(wanted)
        if there is not None:
            try:
                reason = self._take(there, "taken over")
            except (IntegrityError, FileProblem):
                pass  # it was changed since; there is a better one
            else:
                self._reused.add(wanted.filename.text)
                return reason
        return self._take(wanted)

    def _take(self, wanted: Wanted, verb: str = "downloaded") -> str | None:
        """Put a wheel into the bundle, and return why it may not stay there."""
        name = wanted.filename.text
        transfer = self._bars.transfer(name, verb)
        path = wanted.files.download(wanted.file, self._stage / "wheels", transfer)
        # Opened as if it were a plain wheel: a document that is missing costs this wheel (F-27).
        try:
            with WheelArchive(path, parse_wheel_filename(wanted.filename.plain)) as wheel:
                metadata = wheel.metadata()
                document = wheel.variant_document() if wanted.filename.is_variant else None
        except InvalidWheel as error:
            error.where = redact(wanted.file.url)  # not the copy that nobody will find
            raise
        reason = wanted.confirm(document) if wanted.filename.is_variant else None
        if reason is None:
            _own(path, earlier=self._place.folder)
            self._metadata[name] = metadata
        return reason

    def _wheels(self) -> dict[str, BundledFile]:
        found = {}
        for path in sorted((self._stage / "wheels").iterdir()):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.name] = BundledFile(digest, path.stat().st_size)
        self._files |= {f"wheels/{name}": file for name, file in found.items()}
        return found

    def _write_index(self, wheels: Mapping[str, BundledFile]) -> None:
        entries: dict[NormalizedName, list[File]] = {}
        for filename, file in wheels.items():
            metadata = self._metadata[filename]
            entry = File(
                filename,
                f"../../wheels/{quote(filename, safe='')}",
                {"sha256": file.sha256},
                requires_python=header_value(metadata, "Requires-Python"),
                size=file.size,
                metadata_hashes={"sha256": hashlib.sha256(metadata).hexdigest()},
            )
            entries.setdefault(parse_wheel_filename(filename).name, []).append(entry)
        for name, documents in index_files(self._plan.kept().values()).items():
            for filename, data in documents.items():
                digest = hashlib.sha256(data).hexdigest()
                url = quote(filename, safe="")
                entries[name].append(File(filename, url, {"sha256": digest}, size=len(data)))
                self._write(f"simple/{name}/{filename}", data)
        pages = [
            ProjectPage(name, tuple(sorted(files, key=_by_name)), "")
            for name, files in entries.items()
        ]
        for path, data in write_site(pages).items():
            self._write(f"simple/{path}", data)

    def _write(self, path: str, data: bytes) -> None:
        place = self._stage / path
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
        self._files[path] = BundledFile(hashlib.sha256(data).hexdigest(), len(data))

    def _readme(self) -> str:
        words = words_in_effect(self._opened.arguments)
        parts = [word for extra in self._plan.extras for word in ("--extra", extra)]
        options = "".join(f" {_word(word)}" for word in (*parts, *words))
        names = [host.name for host in self._plan.hosts]
        first = names[0] if names else "NAME"
        for_whom = (
            f"It is for: {', '.join(names)} (the host files are in hosts/)."
            if names
            else "It has every wheel of the lock it was made from."
        )
        return _README.format(for_whom=for_whom, options=options, first=first)


_README = """\
This folder installs with no network. {for_whom}

On one of those machines, in this folder:

    wheelfit sync pylock.toml{options}

For one of them from elsewhere, into a folder that is taken there:

    wheelfit sync pylock.toml{options} --for hosts/{first}.toml --target FOLDER

With an index; any static web server can serve simple/ and wheels/ too:

    wheelfit install --index-url simple NAME
    uv pip install --default-index file:///PATH/simple/ NAME
    pip install --index-url file:///PATH/simple/ NAME

uv and pip see wheels without a label only.

Whether the copy is complete and unchanged:

    wheelfit bundle --verify .
"""


def words_in_effect(arguments: Namespace) -> tuple[str, ...]:
    """Return the options that wheels are chosen by, as they can be given again anywhere.

    A shorthand of the user's own is no word elsewhere, so what it stands for is returned.

    :param arguments: of the command.
    """
    found: list[str] = []
    for text in options_in_effect(arguments):
        option, _, value = text.partition(" ")
        own = [one for one in arguments.shorthands if one.name == value]
        if option == "--variant" and own:
            for key in ("prefer", "require", "forbid"):
                found += [word for wish in getattr(own[0], key) for word in (f"--{key}", str(wish))]
        else:
            found += [option, value] if value else [option]
    return tuple(found)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Let errors say which machine cannot be served."""
    try:
        yield
    except (NoFit, UserError) as error:
        error.message = f"{name} cannot be served: {error.message}"
        raise


def _host_name(machine: ChosenMachine, taken: set[str]) -> str:
    """Return a name for the host file that every file system takes."""
    called = "this-machine" if machine.host is None else machine.host.record
    stem = called.removesuffix(".toml")
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", stem).strip("-.")[:60] or "host"
    names = (plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name.casefold() not in taken)


def _spelled(asked: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return what was asked for as the lock spells it."""
    names = {canonicalize_name(name) for name in asked}
    return tuple(sorted({name for name in known if canonicalize_name(name) in names}))


def _add(found: dict[str, Wanted], one: Wanted, where: str) -> None:
    """Add a wheel, unless it is there; one folder has one file of a name."""
    text = one.filename.text
    before, promised = found.setdefault(text, one).file.hashes, one.file.hashes
    common = before.keys() & promised.keys()
    if not common or any(before[name] != promised[name] for name in common):
        fault = Fault("packages", f"two different files are called {text}")
        raise InvalidLock([fault], where=where)


def _confirming(
    document: VariantDocument | None, filename: WheelFilename
) -> Callable[[bytes | None], str | None]:
    def confirm(data: bytes | None) -> str | None:
        if document is None or filename.label is None:
            return None
        try:
            own = read_wheel_document(data, filename.label, where=filename.text)
        except InvalidWheel as error:
            return error.message
        return disagreement(own, document, filename.label)

    return confirm


def _by_name(file: File) -> str:
    return file.filename


def _word(text: str) -> str:
    return shell_quote("".join(sign if sign.isprintable() else "?" for sign in text))


def _own(path: Path, *, earlier: Path) -> None:
    """Make a file the bundle's own: one that shares its bytes with a cache could harm that."""
    status = path.stat()
    if status.st_nlink == 1:
        return
    before = earlier / "wheels" / path.name
    if status.st_nlink == 2 and before.is_file() and before.samefile(path):
        return  # the earlier bundle goes away
    copy = path.with_name(f".{path.name}.part")
    shutil.copyfile(path, copy)
    copy.replace(path)


def _open_up(stage: Path) -> None:
    """Give files and folders the permissions that any new file has."""
    os.umask(mask := os.umask(0))
    stage.chmod(0o777 & ~mask)
    for path in stage.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def _put_in_place(stage: Path, place: Place) -> None:
    """Give the folder its name; what was there goes only when that has worked."""
    folder = place.folder
    if place.earlier is None:
        if folder.is_dir():
            folder.rmdir()  # it is empty
        stage.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        folder.rename(old / "old")
        try:
            stage.rename(folder)
        except BaseException:
            (old / "old").rename(folder)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
