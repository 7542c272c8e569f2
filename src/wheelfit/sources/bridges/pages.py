"""The page of a family, made of the pages of its members; pure, nobody is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from wheelfit.core.filename import index_file_name, parse_wheel_filename, with_label
from wheelfit.errors import InvalidFilename
from wheelfit.sources.bridges.selectors import LateHashes, document_bytes
from wheelfit.sources.page import BRIDGE, VARIANTS_SUFFIX, File, ProjectPage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.core.filename import WheelFilename


def page_of_names(
    family: BridgeFamily, pages: Mapping[NormalizedName, ProjectPage | None]
) -> ProjectPage | None:
    """Return the page of a family whose members have names of their own.

    :param family: the family.
    :param pages: that of its own name, and those of its members.
    :return: None if none of them is known.
    """
    own = pages[family.name]
    if own is not None and any(_is_of_variants(file) for file in own.files):
        return own
    known = [page for page in pages.values() if page is not None]
    if not known:
        return None
    first = own or known[0]
    if own is not None and any(page.source != own.source for page in known):
        return own  # who has the name in one source owns nothing in another
    making = _Making(family, first.source)
    for member in family.members:
        page = pages[member.distribution]
        if page is not None and page.source == first.source:
            making.add(member, page)
    if own is not None and any(member.label is None for member in family.members):
        making.files = [*own.files, *making.files]
    return making.page(family.name, first.source, () if own is None else own.notes)


def page_of_indexes(
    family: BridgeFamily, name: NormalizedName, pages: Mapping[str, ProjectPage | None]
) -> ProjectPage | None:
    """Return the page of a project that has an index for each of its builds.

    :param family: the family.
    :param name: one of its projects.
    :param pages: by the folder of the index.
    :return: None if no index knows the project.
    """
    known = [page for page in pages.values() if page is not None]
    if not known:
        return None
    source = ", ".join(dict.fromkeys(page.source for page in known))
    making = _Making(family, known[0].source)
    for member in family.members:
        page = pages[member.index]
        if page is not None:
            making.add(member, page)
    return making.page(name, source, [])


def _is_of_variants(file: File) -> bool:
    """Tell whether a file says that a project has variants itself."""
    if file.filename.endswith(VARIANTS_SUFFIX):
        return True
    filename = _wheel(file)
    return filename is not None and filename.is_variant


def _wheel(file: File) -> WheelFilename | None:
    if not file.filename.endswith(".whl"):
        return None
    try:
        return parse_wheel_filename(file.filename)
    except InvalidFilename:
        return None


class _Making:
    """The files of a page in the making.

    :param family: the family.
    :param source: where what exists nowhere seems to be.
    """

    def __init__(self, family: BridgeFamily, source: str) -> None:
        self.files: list[File] = []
        self._family = family
        self._source = source
        self._names: set[str] = set()
        self._documents: dict[tuple[NormalizedName, Version], str] = {}

    def add(self, member: FamilyMember, page: ProjectPage) -> None:
        """Add the wheels of a member, as what they are in the family."""
        if member.label is None:
            return
        declared = document_bytes(self._family, member)
        for file, filename in _wheels(member, page):
            if member.distribution == self._family.name or self._family.is_of_indexes:
                made = self._declared(member, file, filename, declared)
            else:
                made = self._selector(member, file, filename)
            if made is None or made.filename in self._names:
                continue  # two builds of one wheel have one selector
            self._names.add(made.filename)
            self.files.append(made)
            name = page.name if self._family.is_of_indexes else self._family.name
            self._documents.setdefault((name, filename.version), made.source)

    def page(self, name: NormalizedName, source: str, notes: Iterable[str]) -> ProjectPage:
        """Return the page, with an index file for each release."""
        documents = [
            File(text, _address(self._family, text), source=of)
            for (project, version), of in self._documents.items()
            for text in [index_file_name(project, version)]
        ]
        return ProjectPage(
            name, (*self.files, *documents), source, tuple(notes), bridge=self._family
        )

    def _declared(
        self, member: FamilyMember, file: File, filename: WheelFilename, declared: bytes
    ) -> File | None:
        try:
            labelled = with_label(filename, member.label)
        except InvalidFilename:
            return None
        return replace(file, filename=labelled.text, declared=declared)

    def _selector(self, member: FamilyMember, file: File, filename: WheelFilename) -> File | None:
        tags = file.filename.removesuffix(".whl").rsplit("-", 3)[1:]
        stem = self._family.name.replace("-", "_")
        text = "-".join((stem, str(filename.version), *tags, str(member.label))) + ".whl"
        try:
            selector = parse_wheel_filename(text)
        except InvalidFilename:
            return None
        return File(
            text,
            _address(self._family, text),
            LateHashes(self._family, selector),
            requires_python=file.requires_python,
            yanked=file.yanked,
            upload_time=file.upload_time,
            source=self._source,
        )


def _wheels(member: FamilyMember, page: ProjectPage) -> Iterator[tuple[File, WheelFilename]]:
    for file in page.files:
        filename = _wheel(file)
        if filename is None or filename.name != page.name or filename.is_variant:
            continue
        version = filename.version
        if member.local and version.local != member.local:
            continue
        if member.versions.contains(version, prereleases=True):
            yield file, filename


def _address(family: BridgeFamily, filename: str) -> str:
    return f"{BRIDGE}{family.name}/{quote(filename)}"
