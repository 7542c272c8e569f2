"""Where a release goes, what is there already, and whether it may go there."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wheelfit.build.publishing.completeness import Project
from wheelfit.build.publishing.forecast import NO_LIMITS, PUBLIC_REGISTRY
from wheelfit.build.publishing.outgoing import Kind
from wheelfit.build.publishing.refusals import BAD_ATTESTATION
from wheelfit.build.publishing.wire import read_attestations, read_pypirc
from wheelfit.check.checks import CHECKS, INCONSISTENT_WHEELS, PYPI_FILE_SIZE, PYPI_PROJECT_SIZE
from wheelfit.check.findings import Count, Finding, Place, Report, Severity
from wheelfit.check.local import check_paths
from wheelfit.check.profile import Profile
from wheelfit.cli.configuration import home
from wheelfit.cli.pip_rules import pip_surroundings
from wheelfit.cli.upload_logins import find_login, with_login
from wheelfit.errors import (
    AttestationProblem,
    FileProblem,
    InconsistentDocuments,
    InvalidConfiguration,
    InvalidWheel,
    NetworkError,
    UsageError,
)
from wheelfit.server.uploads.rules import check_file
from wheelfit.sources.open import open_sources
from wheelfit.sources.pip_configuration import read_pip_configuration
from wheelfit.sources.urls import origin, redact, split_userinfo
from wheelfit.values import dataclass, field, replace

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence
    from ssl import SSLContext

    from packaging.utils import NormalizedName

    from wheelfit.build.publishing.forecast import Limits
    from wheelfit.build.publishing.outgoing import Outgoing, Release, Set
    from wheelfit.cli.output import Output
    from wheelfit.server.generate.targets import Target
    from wheelfit.sources.credentials import Login
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.remembered import Remembered
    from wheelfit.sources.settings import SourceSettings

__all__ = [
    "Index",
    "StaticPlace",
    "documents_of",
    "judge",
    "limits_of",
    "open_destination",
    "project_in",
    "publish_static",
]


def __dir__() -> list[str]:
    return __all__


_PUBLIC = {"upload.pypi.org": "https://pypi.org/simple/",
           "test.pypi.org": "https://test.pypi.org/simple/"}  # fmt: skip
"""Hosts of the public registry, and where each lists what it has."""
_ENDINGS = ("/simple", "/legacy")


# --- where to --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Index:
    """Hold an index that takes uploads."""

    upload_url: str
    """Without credentials, as all of these."""
    check_url: str
    """Where it lists what it has."""
    base: str | None
    """Of a server of ours: what stands before ``/-/``; it can hold a release back."""
    login: Login | None
    settings: SourceSettings
    context: SSLContext | None = field(compare=False)
    """Whom to trust there over TLS; None over plain HTTP."""

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.check_url if self.base else self.upload_url

    @property
    def is_public(self) -> bool:
        """Whether it is the public registry."""
        return urlsplit(self.upload_url).hostname in _PUBLIC

    def sources(self, environ: Mapping[str, str], output: Output) -> Remembered:
        """Open what it lists; nothing is remembered, since it changes."""
        is_same = origin(self.check_url) == origin(self.upload_url)
        settings = replace(
            self.settings,
            index_url=with_login(self.check_url, self.login if is_same else None),
            extra_index_urls=(),
            find_links=(),
            no_index=False,
            cache=False,
        )
        return open_sources(
            settings, cache_folder=None, environ=environ, home=home(), note=output.warn
        )

    def there(
        self, projects: Sequence[NormalizedName], environ: Mapping[str, str], output: Output
    ) -> dict[NormalizedName, tuple[File, ...]]:
        """Return what it lists of projects."""
        with closing(self.sources(environ, output)) as sources:
            pages = {name: sources.project(name) for name in projects}
        return {name: () if page is None else page.files for name, page in pages.items()}


@dataclass(frozen=True, slots=True)
class StaticPlace:
    """Hold a static index: files that any web server offers."""

    target: Target
    folder: Path | None
    """None: it is an object store."""

    @property
    def name(self) -> str:
        """What people know it by."""
        return f"{self.target.name}/simple/"

    @property
    def is_public(self) -> bool:
        """Whether it is the public registry."""
        return False

    def there(self, projects: Sequence[NormalizedName]) -> dict[NormalizedName, tuple[File, ...]]:
        """Return what its pages list of projects."""
        from wheelfit.server.generate.manifest import MANIFEST, read_manifest

        files = read_manifest(self.target.read(MANIFEST), where=self.target.name).files
        return {name: files.get(name, ()) for name in projects}


def open_destination(
    arguments: Namespace, environ: Mapping[str, str], output: Output
) -> Index | StaticPlace:
    """Find out what ``--to`` names.

    :param arguments: of ``wheelfit publish``.
    :param environ: the environment of the process.
    :param output: told what people should know.
    :raises Unreachable: a server cannot be reached.
    :raises InvalidConfiguration: it is no address.
    :raises UsageError: a name stands for nothing.
    """
    text = arguments.to
    if text.startswith(("http://", "https://")):
        return _index(text, _configured_for(text), arguments, environ, output)
    is_path = "://" in text or text.startswith("file:") or set(text) & set("/\\.")
    if not is_path and not Path(text).exists():
        known = read_pypirc(home() / ".pypirc")
        if text in known:
            url = known[text].get("repository", "")
            return _index(url, known[text], arguments, environ, output)
        raise UsageError(
            f"--to {text}: there is no such folder, and no index of that name",
            hint=f"name the URL of an index, ./{text} for a new folder, or one of "
            f"{', '.join(sorted(known))} (.pypirc names more)",
        )
    if arguments.check_url or arguments.one_by_one:
        raise UsageError("--check-url and --one-by-one are for indexes that take uploads")
    return _static(text)


def _configured_for(url: str) -> Mapping[str, str]:
    """Return what ``.pypirc`` says of an address, if there is such a file."""
    path = home() / ".pypirc"
    if not path.is_file():
        return {}
    clean = split_userinfo(url)[0].rstrip("/")
    for one in read_pypirc(path).values():
        if one.get("repository", "").rstrip("/") == clean:
            return one
    return {}


def _index(
    url: str,
    configured: Mapping[str, str],
    arguments: Namespace,
    environ: Mapping[str, str],
    output: Output,
) -> Index:
    clean, host = _checked(url)
    if arguments.check_url:
        _checked(arguments.check_url)
    settings = read_pip_configuration(pip_surroundings(environ, None)).with_options(
        cert=arguments.cert, client_cert=arguments.client_cert
    )
    base = context = None
    if clean.startswith("https:"):
        from wheelfit.sources.certificates import checking_context

        context = checking_context(settings.cert, settings.client_cert, environ=environ)
    if host not in _PUBLIC:
        from wheelfit.server.hosting.client import is_index_server

        base = _without_ending(clean)
        base = base if is_index_server(base, context=context) else None
    login, place = find_login(
        url, configured, settings, environ, home(), is_ours=base is not None, note=output.warn
    )
    if place:
        output.detail(f"the login is that of {place}")
    if base is not None:
        return Index(f"{base}/legacy/", f"{base}/simple/", base, login, settings, context)
    check_url = arguments.check_url or _PUBLIC.get(host) or f"{_without_ending(clean)}/simple/"
    if not arguments.check_url and host not in _PUBLIC:
        output.detail(f"what is there already is looked for at {redact(check_url)}")
    return Index(clean, split_userinfo(check_url)[0], None, login, settings, context)


def _checked(url: str) -> tuple[str, str]:
    """Return an address without its login, and its host.

    :raises InvalidConfiguration: it is none.
    """
    try:
        clean = split_userinfo(url)[0]
        where = origin(clean)
    except ValueError:
        where = None
    if where is None or where.scheme not in ("http", "https") or not where.port:
        raise InvalidConfiguration("this is no address of an index", where=redact(url))
    return clean, where.host


def _without_ending(url: str) -> str:
    url = url.partition("?")[0].rstrip("/")
    for ending in _ENDINGS:
        url = url.removesuffix(ending)
    return url


def _static(text: str) -> StaticPlace:
    from wheelfit.cli.index_targets import open_target
    from wheelfit.server.generate.targets import SIMPLE
    from wheelfit.server.store.opening import DATABASE

    target, folder = open_target(text)
    if folder is not None and folder.name == SIMPLE:
        raise UsageError(
            f"the pages would go into {folder / SIMPLE}",
            hint=f"name the folder above: --to {folder.parent}",
        )
    if folder is not None and (folder / DATABASE).exists():
        raise FileProblem(
            "this is the store of a live index",
            where=text,
            hint="name the URL of its server, as http://127.0.0.1:8942/",
        )
    return StaticPlace(target, folder)


def limits_of(arguments: Namespace, destination: Index | StaticPlace) -> Limits:
    """Return how much an index takes: what the user knows of it, or its usual limits.

    :param arguments: of ``wheelfit publish``.
    :param destination: the index.
    """
    is_public = destination.is_public or Profile.PYPI in arguments.profile
    usual = PUBLIC_REGISTRY if is_public else NO_LIMITS
    return replace(
        usual,
        file=usual.file if arguments.file_limit is None else arguments.file_limit,
        project=usual.project if arguments.project_limit is None else arguments.project_limit,
    )


# --- may it go -------------------------------------------------------------------------------


_OWN = (PYPI_FILE_SIZE.code, PYPI_PROJECT_SIZE.code)
"""Findings of `check` that the forecast has with the limits that hold."""


def judge(outgoing: Set, profiles: frozenset[Profile], progress: Progress) -> Report:
    """Find everything that would keep files from an index, by the code of the index (B-54).

    :param outgoing: what shall be published.
    :param profiles: tools whose rules count too.
    :param progress: told of bytes.
    """
    report = check_paths(outgoing.checked, profiles=profiles).without(_OWN)
    known = {(one.where, one.code) for one in report.findings}
    progress.start(sum(one.size for one in outgoing.files))
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="wheelfit-publish-") as scratch:

        def look(numbered: tuple[int, Outgoing]) -> list[Finding]:
            number, one = numbered
            found = _rules(one, Path(scratch, str(number)))
            progress.advance(one.size)
            return found

        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for found in pool.map(look, enumerate(outgoing.files)):
                findings += found
    progress.done()
    new = [one for one in findings if (one.where, one.code) not in known]
    return report + Report.of(new, (), Count())


def _rules(one: Outgoing, scratch: Path) -> list[Finding]:
    """Return what the rules of an index say of one file."""
    path = one.path
    if one.kind is Kind.SOURCE:
        # It is unpacked beside itself; that shall not be among the user's files.
        scratch.mkdir()
        path = scratch / one.filename
        _lend(one.path, path)
    verdict = check_file(path, one.filename, sha256=one.sha256, size=one.size)
    found = []
    for severity, violations in (
        (Severity.ERROR, verdict.violations),
        (Severity.WARNING, verdict.warnings),
    ):
        for violation in violations:
            check = CHECKS.get(violation.reference)
            member = violation.where.removeprefix(one.filename).removeprefix(": ")
            found.append(
                Finding(
                    severity,
                    violation.reference,
                    "F-131" if check is None else check.rule,
                    str(one.path),
                    violation.message,
                    "build the file anew" if check is None else check.remedy,
                    member,
                )
            )
    return [*found, *_attested(one)]


def _attested(one: Outgoing) -> list[Finding]:
    """Return what is wrong with attestations; whether they hold, as far as that can be told."""
    if not one.attestations:
        return []
    place = Place(str(one.path))
    try:
        attestations = read_attestations(one)
    except AttestationProblem as error:
        return [Place(str(error.where)).found(BAD_ATTESTATION, error.message)]
    if find_spec("pypi_attestations") is None:
        return []  # the index verifies them all the same
    import json

    from wheelfit.server.uploads.attested import provenance_of

    _, violations = provenance_of(json.dumps(attestations), one.filename, one.sha256)
    return [place.found(BAD_ATTESTATION, violation.message) for violation in violations]


def project_in(folder: Path) -> Project | None:
    """Return what a project says of its releases; None if there is none, or it has no name.

    :param folder: of the project.
    :raises InvalidDocument: its table has faults, or its matrix.
    """
    import tomllib

    from packaging.utils import canonicalize_name

    from wheelfit.build.matrix import read_matrix
    from wheelfit.core.project_table import read_project_table

    path = folder / "pyproject.toml"
    try:
        pyproject = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return None
    project = pyproject.get("project")
    name = project.get("name") if isinstance(project, dict) else None
    if not isinstance(name, str):
        return None
    table = read_project_table(pyproject, where=str(path))
    matrix = read_matrix(pyproject, table.variants if table else (), where=str(path))
    return Project(canonicalize_name(name), table, matrix.jobs if matrix else ())


def documents_of(
    index: Index,
    outgoing: Set,
    there: Mapping[NormalizedName, Sequence[File]],
    environ: Mapping[str, str],
    output: Output,
) -> tuple[Mapping[Release, bytes], tuple[Finding, ...]]:
    """Return the index files of releases, with the wheels that are there, and what contradicts.

    :param index: where they go.
    :param outgoing: what shall be published; each wheel of it is sound.
    :param there: by project: what the index has.
    :param environ: the environment of the process.
    :param output: told if wheels that are there cannot be read.
    """
    from wheelfit.build.publishing.index_files import index_files_of

    with closing(index.sources(environ, output)) as sources:
        try:
            return index_files_of(outgoing, there, sources.variant_document), ()
        except (InconsistentDocuments, InvalidWheel) as error:
            words = f"{error.message}: {error.note}" if error.note else error.message
            place = Place(error.where or index.name)
            return {}, (place.found(INCONSISTENT_WHEELS, " ".join(words.split())),)
        except NetworkError as error:
            output.warn(
                f"variants that are there cannot be read, so no -variants.json is made: {error}"
            )
            return {}, ()


# --- static indexes --------------------------------------------------------------------------


def publish_static(
    place: StaticPlace, outgoing: Set, there: Mapping[NormalizedName, Sequence[File]], bar: Progress
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Publish files on a static index as one act: pages are exchanged when all files are there.

    :param place: the index.
    :param outgoing: the files.
    :param there: by project: what its pages list.
    :param bar: told of bytes.
    :return: paths of what was written, and what was refused instead.
    :raises EnvironmentBusy: somebody else publishes there.
    """
    from wheelfit.server.generate.generation import generate
    from wheelfit.server.generate.memory import Memory
    from wheelfit.server.generate.wishes import Wishes

    with tempfile.TemporaryDirectory(prefix="wheelfit-publish-") as name:
        folder = Path(name)
        for one in outgoing.files:
            _lend(one.path, folder / one.filename)
            _lay_provenance(one, folder)
        if place.folder is not None:
            _lay_published(place.folder, outgoing, there, folder)
        wishes = Wishes(frozenset(outgoing.releases))
        memory = Memory(folder / ".facts.json")
        generated = generate(folder, place.target, memory, wishes, progress=bar)
    return generated.written, generated.refused


def _lay_provenance(one: Outgoing, folder: Path) -> None:
    """Put what was attested about a file beside it, as indexes serve it."""
    beside = one.path.with_name(f"{one.filename}.provenance")
    data = None
    if beside.is_file():
        data = beside.read_bytes()
    elif one.attestations and find_spec("pypi_attestations") is not None:
        import json

        from wheelfit.server.uploads.attested import provenance_of

        data, _ = provenance_of(json.dumps(read_attestations(one)), one.filename, one.sha256)
    if data is not None:
        (folder / beside.name).write_bytes(data)


def _lay_published(
    root: Path,
    outgoing: Set,
    there: Mapping[NormalizedName, Sequence[File]],
    folder: Path,
) -> None:
    """Put the other files of the same releases beside them, which are published as a whole."""
    from wheelfit.core.filename import release_of
    from wheelfit.server.generate.published import path_of_entry

    for project, files in there.items():
        for file in files:
            if release_of(file.filename) not in outgoing.releases:
                continue
            path = root / path_of_entry(project, file.url)
            here = folder / file.filename
            if here.exists() or not path.is_file() or file.filename.endswith(".json"):
                continue
            _lend(path, here)
            if file.yanked is not None:
                (folder / f"{file.filename}.yanked").write_text(file.yanked, "utf-8")
            provenance = path.with_name(f"{path.name}.provenance")
            if provenance.is_file():
                _lend(provenance, folder / provenance.name)


def _lend(path: Path, place: Path) -> None:
    """Let a file be found in another place too, at no cost where the system can do that."""
    for give in (place.symlink_to, place.hardlink_to):
        with suppress(OSError):
            give(path.absolute())
            return
    shutil.copyfile(path, place)
