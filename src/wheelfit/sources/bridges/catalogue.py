"""The known bridged families, and those that a user has requested.

Each shipped family is a file of this package, which is read when its name is needed, so that unused
families take no time. The distribution ``wheelfit-families`` has the same files; a fetched update
takes precedence over the shipped files, but adds no new hosts.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.errors import reporting_os_errors
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.platforms.cache_folder import state_folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from wheelfit.core.bridges import BridgeFamily, FamilyMember

SHIPPED_VERSION = "2026.11.28.3"
"""The version of ``wheelfit-families`` whose files ship here: a day, and a number if one day has
several. It rises whenever a file of a family changes."""
ALL_KNOWN = "all-known"
"""The word for every shipped family of names; those of indexes would change the origin of files."""
_NONE, _DEFAULT = "none", "default"
"""The words that drop all earlier and default families, and that restore the default ones."""
_SUFFIX = ".toml"
_FOLDER = Path(__file__).with_name("definitions")
_INDEXES = _FOLDER / "indexes"
"""The families of indexes; each other family has the name of the one project it stands for."""
_PROJECTS = re.compile(r"^projects = \[([^\]]*)\]", re.MULTILINE)
_NAME = re.compile(r'"([^"]+)"')


class KnownFamilies:
    """The families that wheelfit knows, by their normalised names.

    :param newer: the content of newer files by the name of the family; each replaces the shipped
        one.
    """

    def __init__(
        self, newer: Mapping[str, str] = MappingProxyType({}), version: str = SHIPPED_VERSION
    ) -> None:
        self._newer = newer
        self.version = version

    @property
    def is_update(self) -> bool:
        """Whether there are newer files than the shipped ones."""
        return bool(self._newer)

    def origin_data(self) -> dict[str, object]:
        """Return the version and origin of the files, as plain data."""
        origin = "update" if self.is_update else "shipped"
        return {"version": self.version, "origin": origin, "shipped": SHIPPED_VERSION}

    def names(self) -> tuple[str, ...]:
        """Return the names of all families, sorted."""
        stems = {path.stem for path in _FOLDER.rglob(f"*{_SUFFIX}")}
        return tuple(sorted(stems | self._newer.keys()))

    def named(self, name: str) -> BridgeFamily | None:
        """Return a family from its newest file; None if there is none of that name.

        :raises InvalidDocument: ``invalid-bridge``; a file breaks its rules.
        """
        if name in self._newer:
            return _parse(self._newer[name].encode(), f"{name}{_SUFFIX} of the update")
        return shipped(name)

    def as_default(self, name: str) -> BridgeFamily | None:
        """Return a shipped family as it is used if the user does not request it.

        The newest file is used, unless it has locations that the shipped file does not have.
        An update neither makes a family a default one nor adds projects that it stands for.
        """
        shipped_family = shipped(name)
        if shipped_family is None or name not in self._newer:
            return shipped_family
        newest_family = self.named(name) or shipped_family
        effective = shipped_family if newest_family.new_locations(shipped_family) else newest_family
        return replace(
            effective,
            by_default=newest_family.by_default and shipped_family.by_default,
            projects=tuple(
                project for project in effective.projects if project in shipped_family.projects
            ),
        )

    def restrictions(self, name: str) -> tuple[str, ...]:
        """Return the parts of a newest file that need a request of the user, as clauses."""
        newest, effective = self.named(name), self.as_default(name)
        if newest is None or effective is None or not newest.by_default:
            return ()
        if not effective.by_default:
            return ("would be used without --bridge",)
        locations = (f"names {location}" for location in newest.new_locations(effective))
        projects = (project for project in newest.projects if project not in effective.projects)
        return (*locations, *(f"stands for {project}" for project in projects))

    def standing_for(self, project: NormalizedName) -> tuple[BridgeFamily, ...]:
        """Return the families that stand for a project, default or not."""
        same_name = [project] if project in self._names_of_one_project else []
        families = []
        of_indexes = [index.name for index in self._index_families if index.is_for(project)]
        for name in (*same_name, *of_indexes):
            family, as_default = self.named(name), self.as_default(name)
            if family is not None and family.has_project(project):
                is_default = as_default is not None and as_default.by_default
                families.append(replace(family, by_default=is_default))
        return tuple(families)

    def default_index_families(self) -> tuple[BridgeFamily, ...]:
        """Return the families of indexes that are used by default."""
        names = (index.name for index in _shipped_index_families() if index.is_default)
        families = map(self.as_default, names)
        return tuple(family for family in families if family is not None and family.by_default)

    @cached_property
    def _index_families(self) -> tuple[_IndexFamily, ...]:
        if not self._newer:
            return _shipped_index_families()
        newer = (_index_family(name, text) for name, text in self._newer.items())
        remaining = (index for index in _shipped_index_families() if index.name not in self._newer)
        return (*remaining, *filter(None, newer))

    @cached_property
    def _names_of_one_project(self) -> Collection[str]:
        """The names of the families that stand for the one project of their name."""
        shipped_names = {path.stem for path in _FOLDER.glob(f"*{_SUFFIX}")}
        return shipped_names | (self._newer.keys() - {index.name for index in self._index_families})

    def find(self, text: str) -> BridgeFamily:
        """Return the family of a name or file.

        :param text: the name of a known one, or the path of a file that ends with ``.toml``.
        :raises UserError: there is no such family.
        :raises FileProblem: the file cannot be read.
        :raises InvalidDocument: ``invalid-bridge``; the file breaks its rules.
        """
        if text.endswith(_SUFFIX):
            return _read_family(Path(text))
        family = self.named(canonicalize_name(text))
        if family is None:
            from difflib import get_close_matches

            close_names = get_close_matches(text, self.names(), n=3)
            suggestion = f"did you mean {' or '.join(close_names)}? " if close_names else ""
            raise UserError(
                f"unknown bridge {text[:80]!r}", hint=f"{suggestion}`wheelfit bridges` lists them"
            )
        return family


SHIPPED = KnownFamilies()
"""The families of this package alone."""


def update_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the fetched update, whether it exists or not."""
    return Path(state_folder_of(environ), "families.json")


def known_families(environ: Mapping[str, str], *, shipped_bridges: bool) -> KnownFamilies:
    """Return the known families, with the files of an update if it is newer.

    :param shipped_bridges: whether to use the shipped files even if an update is newer.
    :raises FileProblem: the update is damaged, or another user could have written it.
    """
    path = update_file(environ)
    if shipped_bridges or not path.is_file():  # the usual case, which imports nothing
        return SHIPPED
    from wheelfit.sources.bridges.updates import read_update, release_of

    update = read_update(path)
    if update is None or release_of(update.version) <= release_of(SHIPPED_VERSION):
        return SHIPPED
    return KnownFamilies(update.files, update.version)


@cache
def shipped(name: str) -> BridgeFamily | None:
    """Return a shipped family by its normalised name; None if there is none."""
    path = shipped_file(name)
    return None if path is None else _parse(path.read_bytes(), path.name)


def shipped_file(name: str) -> Path | None:
    """Return the file of a shipped family by its normalised name; None if there is none."""
    if not (name.isascii() and name.replace("-", "").isalnum()):  # a path, perhaps
        return None
    paths = (_FOLDER / f"{name}{_SUFFIX}", _INDEXES / f"{name}{_SUFFIX}")
    return next((path for path in paths if path.is_file()), None)


class _IndexFamily(NamedTuple):
    """The part of a family of indexes that is needed to find the family of a project."""

    name: str
    projects: Sequence[str]
    """Names and patterns, such as ``nvidia-*``."""
    is_default: bool

    def is_for(self, project: str) -> bool:
        # Nearly all are plain names, and a pattern is compiled to a regular expression.
        return any(
            project == pattern or ("*" in pattern and fnmatchcase(project, pattern))
            for pattern in self.projects
        )


@cache
def _shipped_index_families() -> tuple[_IndexFamily, ...]:
    """Return the shipped families of indexes.

    Every requested project is looked up here, so the files are read no further than needed.
    """
    paths = sorted(_INDEXES.glob(f"*{_SUFFIX}"))
    families = (_index_family(path.stem, path.read_text(encoding="utf-8")) for path in paths)
    return tuple(filter(None, families))


def _index_family(name: str, text: str) -> _IndexFamily | None:
    """Read the head of a family's file; return None if the family has no indexes."""
    head = text.partition("\n[[member]]")[0]
    if "\nbase = " not in head:
        return None
    listed = _PROJECTS.search(head)
    projects = [name] if listed is None else _NAME.findall(listed[1])
    return _IndexFamily(name, projects, "\nby-default = true" in head)


def has_defaults(names: Iterable[str]) -> bool:
    """Return whether default families are used, given the names from the user, in order."""
    words = [name for name in names if name in (_NONE, _DEFAULT)]
    return words[-1:] != [_NONE]


class BridgeCatalogue:
    """The families that one command uses.

    :param names: names of families, ``all-known``, or paths of files that end with ``.toml``;
        ``NAME@URL`` replaces the URL of a family's indexes; ``none`` drops the families named
        before it and the default ones, which ``default`` restores.
    :param is_of_registry: returns whether a project comes from the public registry and nowhere
        else, so that its owner's index may stand for it by default.
    :param is_forbidden: returns whether families are forbidden; called when one would be used.
    :raises UserError: there is no such family.
    :raises FileProblem: a file cannot be read.
    :raises InvalidDocument: ``invalid-bridge``; a file breaks its rules.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        *,
        is_of_registry: Callable[[NormalizedName], bool] = lambda _project: False,
        is_forbidden: Callable[[], bool] = lambda: False,
        families: KnownFamilies = SHIPPED,
    ) -> None:
        self._families = families
        self._defaults = True
        self._is_of_registry = is_of_registry
        self._is_forbidden = is_forbidden
        self._defaults_by_name: dict[str, BridgeFamily | None] = {}
        self._requested: list[BridgeFamily] = []
        self.is_wanted: Callable[[BridgeFamily, FamilyMember], bool] = lambda _family, _member: True
        """Returns whether the target could get a member of a family of indexes; the others are not
        looked up.
        """
        self.bases: dict[NormalizedName, str] = {}
        """The URLs, by family, that replace the base URL of its indexes."""
        for name in names:
            self._add(name)

    def of(self, project: NormalizedName) -> BridgeFamily | None:
        """Return the family that stands for a project; None if there is none."""
        family = self._standing_for(project)
        return None if family is None or self._is_forbidden() else family

    def _standing_for(self, project: NormalizedName) -> BridgeFamily | None:
        named = next((family for family in self._requested if family.has_project(project)), None)
        if named is not None or not self._defaults:
            return named
        family = self._as_default(project)
        if family is not None and family.by_default and not family.is_of_indexes:
            return family
        if not self._is_of_registry(project):
            return None
        indexes = (index for index in _shipped_index_families() if index.is_default)
        index = next((index for index in indexes if index.is_for(project)), None)
        owner = None if index is None else self._as_default(index.name)
        is_owner = owner is not None and owner.by_default and owner.has_project(project)
        return owner if is_owner else None

    def uses_owner_indexes(self) -> bool:
        """Return whether any project may come from the index of its owner."""
        if not any(family.is_of_indexes for family in self._requested):
            defaults = _shipped_index_families() if self._defaults else ()
            projects = [name for index in defaults if index.is_default for name in index.projects]
            if not any(self._is_of_registry(canonicalize_name(name)) for name in projects):
                return False
        return not self._is_forbidden()

    def is_requested(self, family: BridgeFamily) -> bool:
        """Return whether the user requested a family."""
        return family in self._requested

    @property
    def requested(self) -> tuple[BridgeFamily, ...]:
        """The families that the user requested."""
        return tuple(self._requested)

    def named(self, name: str) -> BridgeFamily | None:
        """Return a family by its name, requested or not; None if there is none."""
        family = next((family for family in self._requested if family.name == name), None)
        return family or self._as_default(name) or self._families.named(name)

    def _as_default(self, name: str) -> BridgeFamily | None:
        if name not in self._defaults_by_name:
            self._defaults_by_name[name] = self._families.as_default(name)
        return self._defaults_by_name[name]

    def __bool__(self) -> bool:
        return self._defaults or bool(self._requested)

    def _add(self, text: str) -> None:
        if text in (_NONE, _DEFAULT):
            self._defaults = text == _DEFAULT
            if text == _NONE:
                self._requested.clear()
                self.bases.clear()
            return
        if text == ALL_KNOWN:
            for name in SHIPPED.names():
                family = self._as_default(name)
                if family is not None and not family.is_of_indexes:
                    self._requested.insert(0, family)
            return
        name, at, base = (text, "", "") if text.endswith(_SUFFIX) else text.partition("@")
        named = self._families.find(name)
        if at:
            if not base:
                raise UserError(f"{text[:80]!r} has no URL of the indexes after the @")
            if not named.is_of_indexes:
                raise UserError(f"the bridge {named.name} has no indexes whose URL could change")
            self.bases[named.name] = base.rstrip("/")
        self._requested.insert(0, named)  # if several stand for one project, the last one counts


def _read_family(path: Path) -> BridgeFamily:
    from wheelfit.core.bridge_file import MAX_SIZE

    with reporting_os_errors("the family cannot be read", where=str(path)), path.open("rb") as file:
        data = file.read(MAX_SIZE + 1)  # one byte more than is accepted
    return _parse(data, str(path))


def _parse(data: bytes, where: str) -> BridgeFamily:
    from wheelfit.core.bridge_file import parse_family

    return parse_family(data, where=where)
