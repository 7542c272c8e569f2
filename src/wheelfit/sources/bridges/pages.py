"""The page of a family, combined from the pages of its members by pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from msgspec.structs import replace

from wheelfit.core.filename import (
    index_file_name,
    release_of,
    wheel_filename_of,
    wheel_tags,
    with_label,
)
from wheelfit.errors import InvalidFilename
from wheelfit.sources.bridges.selectors import LazyHashes, added_requirements_of, document_bytes
from wheelfit.sources.page import ACTIVE, BRIDGE, NO_HASHES, VARIANTS_SUFFIX, File, ProjectPage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from packaging.tags import Tag
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.core.filename import WheelFilename


def page_of_names(
    family: BridgeFamily,
    pages: Mapping[NormalizedName, ProjectPage | None],
    machine_platforms: Collection[str] = (),
) -> ProjectPage | None:
    """Return the page of a family whose members have names of their own.

    :param pages: the pages of the family's own name and of its members; None: there is none.
    :param machine_platforms: the platform tags of the machine to choose for; none: any machine.
    :return: None if no page exists.
    """
    own_page = pages[family.name]
    if own_page is not None and any(_is_of_variants(file) for file in own_page.files):
        return own_page
    existing_pages = [page for page in pages.values() if page is not None]
    if not existing_pages:
        return None
    first_page = own_page or existing_pages[0]
    sources = {page.source for page in existing_pages if page.bridge is None}
    if own_page is not None and sources - {own_page.source}:
        # In another source, the members may belong to somebody else than the family's own name.
        return own_page
    builder = _PageBuilder(family, first_page.source, machine_platforms=machine_platforms)
    for member in family.members:
        page = pages[member.distribution]
        if page is not None and (page.bridge is not None or page.source == first_page.source):
            builder.add(member, page)
    if own_page is not None and any(member.label is None for member in family.members):
        builder.files = [*own_page.files, *builder.files]
    page = builder.page(family.name, first_page.source, () if own_page is None else own_page.notes)
    return page if own_page is None else replace(page, status=own_page.status)


def page_of_indexes(
    family: BridgeFamily,
    name: NormalizedName,
    pages: Mapping[tuple[str, ...], ProjectPage | None],
    hosts: Collection[str] = (),
) -> ProjectPage | None:
    """Return the page of a project whose builds are in separate indexes.

    :param pages: the pages by the locations of members, the registry's by ``()``; None: the index
        lacks the project.
    :param hosts: the hosts from which files may come; empty: any.
    :return: None if no index has the project.
    """
    existing_pages = [page for page in pages.values() if page is not None]
    if not existing_pages:
        return None
    registry_page = pages.get(()) if family.registry else None
    if registry_page is not None and any(_is_of_variants(file) for file in registry_page.files):
        return registry_page
    statuses = sorted(
        (page.status for page in existing_pages if page.status),
        key=lambda status: not status.is_quarantined,
    )
    status = statuses[0] if statuses else ACTIVE
    if status.is_quarantined:  # the status of one folder is that of the whole project
        return ProjectPage(name, (), existing_pages[0].source, bridge=family, status=status)
    builder = _PageBuilder(family, existing_pages[0].source, hosts)
    for member in family.members:
        page = pages.get(member.locations)
        if page is not None:
            builder.add(member, page)
    for locations, page in pages.items():
        is_of_registry = not locations
        if page is not None and (family.registry or not is_of_registry):
            builder.add_sources(page, is_of_registry=is_of_registry)
    source = ", ".join(dict.fromkeys(page.source for page in existing_pages))
    notes = [note for page in existing_pages for note in page.notes]
    return replace(builder.page(name, source, notes), status=status)


def listed_by_rule(
    paths: Iterable[str],
    base: str,
    name: NormalizedName,
    source: str,
    *,
    has_metadata: bool = False,
) -> ProjectPage:
    """Return a page of wheels that no index page lists.

    The local version in the names of such files, for example ``+cu12torch2.10``, is added after the
    build: their METADATA lacks it, so their file names here lack it too.

    :param paths: the locations of the wheels, as URLs or relative to the base.
    :param has_metadata: whether their METADATA may be beside them.
    """
    metadata = NO_HASHES if has_metadata else None
    urls = [path if "://" in path else f"{base}/{quote(path)}" for path in paths]
    files = [
        File(without_local(url.rpartition("/")[2]), url, metadata_hashes=metadata, source=source)
        for url in urls
    ]
    return ProjectPage(name, tuple(files), source)


def without_local(filename: str) -> str:
    """Return the name of a wheel without a local version."""
    name, hyphen, rest = unquote(filename).partition("-")
    version, _, tags = rest.partition("-")
    return f"{name}{hyphen}{version.partition('+')[0]}-{tags}"


def _is_of_variants(file: File) -> bool:
    """Return whether a file shows that its project publishes variants."""
    if file.filename.endswith(VARIANTS_SUFFIX):
        return True
    filename = wheel_filename_of(file.filename)
    return filename is not None and filename.is_variant


def _is_source(file: File) -> bool:
    return not file.filename.endswith(".whl") and release_of(file.filename) is not None


class _PageBuilder:
    """A builder of the page of a family.

    :param source: the name of the source in the entries of selectors, which are generated.
    """

    def __init__(
        self,
        family: BridgeFamily,
        source: str,
        hosts: Collection[str] = frozenset(),
        machine_platforms: Collection[str] = (),
    ) -> None:
        self.files: list[File] = []
        self._family = family
        self._source = source
        self._names: set[str] = set()
        self._documents: dict[tuple[NormalizedName, Version], str] = {}
        self._hosts = hosts
        self._machine_platforms = machine_platforms
        self._foreign_hosts: set[str] = set()
        self._origins: dict[str, bool] = {}
        self._pages: dict[int, list[tuple[File, WheelFilename]]] = {}

    def add(self, member: FamilyMember, page: ProjectPage) -> None:
        """Add the wheels of a member as builds of the family."""
        if member.label is None:
            return
        document = document_bytes(self._family, member)
        for file, filename in self._wheels(member, page):
            if member.distribution == self._family.name or self._family.is_of_indexes:
                variant = self._declared(member, file, filename, document)
            else:
                variant = self._selector(member, file, filename)
            if variant is None or variant.filename in self._names:
                continue  # several builds of one wheel share a selector
            self._names.add(variant.filename)
            self.files.append(variant)
            name = page.name if self._family.is_of_indexes else self._family.name
            self._documents.setdefault((name, filename.version), variant.source)

    def add_sources(self, page: ProjectPage, *, is_of_registry: bool) -> None:
        """Add the source distributions of a page, each only once."""
        for file in filter(_is_source, page.files):
            if file.filename not in self._names and (
                is_of_registry or self._is_on_allowed_host(file)
            ):
                self._names.add(file.filename)
                self.files.append(file)

    def page(self, name: NormalizedName, source: str, notes: Iterable[str]) -> ProjectPage:
        """Return the page, with an index file for each release."""
        documents = [
            File(filename, _address(self._family, filename), source=document_source)
            for (project, version), document_source in self._documents.items()
            for filename in [index_file_name(project, version)]
        ]
        host_notes = [
            f"files on {host} do not count, since the bridge {self._family.name} lists only other "
            "hosts, with https; if the host is the owner's, add it to hosts in a copy of the file, "
            "and pass that file with --bridge"
            for host in sorted(self._foreign_hosts)
        ]
        return ProjectPage(
            name, (*self.files, *documents), source, (*notes, *host_notes), bridge=self._family
        )

    def _declared(
        self, member: FamilyMember, file: File, filename: WheelFilename, document: bytes
    ) -> File | None:
        """Return a wheel with the label of its member; None if its file name cannot have one."""
        try:
            labelled = with_label(filename, member.label)
        except InvalidFilename:
            return None
        return replace(
            file,
            filename=labelled.text,
            declared_document=document,
            added_requirements=added_requirements_of(member, filename),
        )

    def _wheels(
        self, member: FamilyMember, page: ProjectPage
    ) -> Iterator[tuple[File, WheelFilename]]:
        """Yield the wheels of a page that belong to a member."""
        project = page.name if self._family.is_of_indexes else self._family.name
        if not member.covers_project(project):
            return
        covered: dict[tuple[Version, frozenset[Tag]], bool] = {}
        for file, filename in self._read(page):
            if member.local and filename.version.local != member.local:
                continue
            key = filename.version, filename.tags  # cached: a page has few such pairs
            if key not in covered:
                exists = member.covers_release(project, filename.version)
                covered[key] = exists and member.covers_tags(filename.tags, self._machine_platforms)
            if covered[key] and (member.is_of_registry or self._is_on_allowed_host(file)):
                yield file, filename

    def _read(self, page: ProjectPage) -> list[tuple[File, WheelFilename]]:
        """Return the wheels of a page that may belong to members; each page is read only once."""
        wheels = self._pages.get(id(page))
        if wheels is None:
            is_bridged = page.bridge is not None
            named = ((file, wheel_filename_of(file.filename)) for file in page.files)
            wheels = self._pages[id(page)] = [
                (file, filename)
                for file, filename in named
                if filename is not None
                and filename.name == page.name
                and (is_bridged or not filename.is_variant)
            ]
        return wheels

    def _is_on_allowed_host(self, file: File) -> bool:
        """Return whether a file is on an allowed host; add a note otherwise."""
        if not self._hosts:
            return True
        origin = "/".join(file.url.split("/", 3)[:3])  # cached: thousands of files have few origins
        if origin not in self._origins:
            link = urlsplit(origin)
            self._origins[origin] = link.scheme == "https" and link.hostname in self._hosts
            if not self._origins[origin]:
                scheme = "" if link.scheme == "https" else f"{link.scheme}://"
                self._foreign_hosts.add(f"{scheme}{link.hostname}")
        return self._origins[origin]

    def _selector(self, member: FamilyMember, file: File, filename: WheelFilename) -> File | None:
        stem, tags = self._family.name.replace("-", "_"), wheel_tags(filename)
        text = "-".join((stem, str(filename.version), tags, str(member.label))) + ".whl"
        selector = wheel_filename_of(text)
        if selector is None:
            return None
        return File(
            text,
            _address(self._family, text),
            LazyHashes(self._family, selector),
            requires_python=file.requires_python,
            yanked=file.yanked,
            upload_time=file.upload_time,
            source=self._source,
        )


def _address(family: BridgeFamily, filename: str) -> str:
    """Return the ``bridge:`` address of a generated file."""
    return f"{BRIDGE}{family.name}/{quote(filename)}"
