"""The known bridged families, and those a user has agreed to.

The shipped ones are files of this package, one for each; a file is read when its name is needed, so
that unused families cost nothing. The distribution ``wheelfit-families`` has the same files; a
fetched update takes precedence over the shipped files, but adds no new hosts.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from packaging.utils import canonicalize_name

from wheelfit_runtime.errors import FileProblem, UserError
from wheelfit_runtime.platforms.cache_folder import state_folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily, FamilyMember

SHIPPED_VERSION = "2026.11.28.3"
"""The version of ``wheelfit-families`` whose files ship here: a day, and a number if one day has
several. It rises whenever a file of a family changes."""
ALL_KNOWN = "all-known"
"""Stands for every shipped family of names; those of indexes change the origin of files."""
_NONE, _DEFAULT = "none", "default"
"""Words that drop what was named before and what counts by default, and have the latter back."""
_SUFFIX = ".toml"
_FOLDER = Path(__file__).with_name("definitions")
_INDEXES = _FOLDER / "indexes"
"""The families of indexes; the others are called as the one project that they stand for."""
_PROJECTS = re.compile(r"^projects = \[([^\]]*)\]", re.MULTILINE)
_NAME = re.compile(r'"([^"]+)"')


class KnownFamilies:
    """The families that wheelfit knows.

    :param newer: the content of newer files by the name of the family, which go before the
        shipped ones.
    :param version: the version of the newest files.
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

    def edition(self) -> dict[str, object]:
        """Return the origin of the files, as plain data."""
        origin = "update" if self.is_update else "shipped"
        return {"version": self.version, "origin": origin, "shipped": SHIPPED_VERSION}

    def names(self) -> tuple[str, ...]:
        """Return the names of all families, in the order of the alphabet."""
        stems = {path.stem for path in _FOLDER.rglob(f"*{_SUFFIX}")}
        return tuple(sorted(stems | self._newer.keys()))

    def named(self, name: str) -> BridgeFamily | None:
        """Return a family as its newest file has it; None if there is none of that name.

        :param name: normalised.
        :raises InvalidDocument: ``invalid-bridge``; a file breaks its rules.
        """
        if name in self._newer:
            return _parsed(self._newer[name].encode(), f"{name}{_SUFFIX} of the update")
        return shipped(name)

    def unasked(self, name: str) -> BridgeFamily | None:
        """Return a shipped family as it may count where the user does not name it.

        That is as its newest file has it, unless this would send people to places that the shipped
        file does not name. An update turns no family on, and lets none stand for further projects.

        :param name: normalised.
        """
        known = shipped(name)
        if known is None or name not in self._newer:
            return known
        from dataclasses import replace  # start-up

        newest = self.named(name) or known
        counting = known if newest.new_locations(known) else newest
        return replace(
            counting,
            by_default=newest.by_default and known.by_default,
            projects=tuple(project for project in counting.projects if project in known.projects),
        )

    def restrictions(self, name: str) -> tuple[str, ...]:
        """Return the parts of a family's newest file that count only by name, a clause each.

        :param name: normalised.
        """
        newest, counting = self.named(name), self.unasked(name)
        if newest is None or counting is None or not newest.by_default:
            return ()
        if not counting.by_default:
            return ("would count without --bridge",)
        further = (f"names {clause}" for clause in newest.new_locations(counting))
        projects = (one for one in newest.projects if one not in counting.projects)
        return (*further, *(f"stands for {project}" for project in projects))

    def standing_for(self, project: NormalizedName) -> tuple[BridgeFamily, ...]:
        """Return the families that stand for a project, active or not.

        :param project: the requested project.
        """
        own = [project] if project in self._names_of_one_project else []
        families = []
        for name in (*own, *(name for name, _ in _of_indexes(project, self._indexes))):
            family, unasked = self.named(name), self.unasked(name)
            if family is not None and family.stands_for(project):
                from dataclasses import replace  # start-up

                is_default = unasked is not None and unasked.by_default
                families.append(replace(family, by_default=is_default))
        return tuple(families)

    def of_owners(self) -> tuple[BridgeFamily, ...]:
        """Return the families of indexes that count by default, as they do."""
        families = (self.unasked(name) for name, _, is_by_default in _indexes() if is_by_default)
        return tuple(one for one in families if one is not None and one.by_default)

    @cached_property
    def _indexes(self) -> tuple[_IndexesHead, ...]:
        """The families of indexes: name, projects, and whether they count by default."""
        if not self._newer:
            return _indexes()
        newer = (_head(name, text) for name, text in self._newer.items())
        shipped_ones = (index for index in _indexes() if index[0] not in self._newer)
        return (*shipped_ones, *filter(None, newer))

    @cached_property
    def _names_of_one_project(self) -> frozenset[str]:
        of_indexes = {name for name, _, _ in self._indexes}
        return _of_one_project() | (self._newer.keys() - of_indexes)

    def find(self, text: str) -> BridgeFamily:
        """Return the family of a name or file.

        :param text: the name of a known one, or the path of a file that ends with ``.toml``.
        :raises UserError: there is no such family.
        :raises FileProblem: the file cannot be read.
        :raises InvalidDocument: ``invalid-bridge``; the file breaks its rules.
        """
        if text.endswith(_SUFFIX):
            return _read(Path(text))
        family = self.named(canonicalize_name(text))
        if family is None:
            from difflib import get_close_matches

            close = get_close_matches(text, self.names(), n=3)
            meant = f"did you mean {' or '.join(close)}? " if close else ""
            raise UserError(
                f"unknown bridge {text[:80]!r}", hint=f"{meant}`wheelfit bridges` lists them"
            )
        return family


SHIPPED = KnownFamilies()
"""The families of this package alone."""


def update_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the fetched update, whether it exists or not."""
    return Path(state_folder_of(environ), "families.json")


def known_families(environ: Mapping[str, str], *, shipped_bridges: bool) -> KnownFamilies:
    """Return the known families, with the files of an update if it is newer.

    :param environ: the environment of the process.
    :param shipped_bridges: whether those that ship with this program count in any case.
    :raises FileProblem: the update is damaged, or another user could have written it.
    """
    path = update_file(environ)
    if shipped_bridges or not path.is_file():  # nearly always, and then nothing is imported
        return SHIPPED
    from wheelfit.sources.bridges.updates import read_update, release_of

    update = read_update(path)
    if update is None or release_of(update.version) <= release_of(SHIPPED_VERSION):
        return SHIPPED
    return KnownFamilies(update.files, update.version)


def shipped_names() -> tuple[str, ...]:
    """Return the names of the shipped families, in the order of the alphabet."""
    return SHIPPED.names()


@cache
def shipped(name: str) -> BridgeFamily | None:
    """Return a shipped family; None if there is none of that name.

    :param name: normalised.
    """
    path = shipped_file(name)
    return None if path is None else _parsed(path.read_bytes(), path.name)


def shipped_file(name: str) -> Path | None:
    """Return the file of a shipped family; None if there is none of that name.

    :param name: normalised.
    """
    if not (name.isascii() and name.replace("-", "").isalnum()):  # and no path
        return None
    paths = (_FOLDER / f"{name}{_SUFFIX}", _INDEXES / f"{name}{_SUFFIX}")
    return next((path for path in paths if path.is_file()), None)


_IndexesHead: TypeAlias = "tuple[str, Sequence[str], bool]"
"""Of a family of indexes: its name, its projects, and whether it counts by default."""


@cache
def _indexes() -> tuple[_IndexesHead, ...]:
    """Return the shipped families of indexes.

    Every requested project is looked up here, so the files are read no further than needed.
    """
    paths = sorted(_INDEXES.glob(f"*{_SUFFIX}"))
    heads = (_head(path.stem, path.read_text(encoding="utf-8")) for path in paths)
    return tuple(filter(None, heads))


def _head(name: str, text: str) -> _IndexesHead | None:
    """Return name, projects and default of a family of indexes; None for another family."""
    head = text.partition("\n[[member]]")[0]
    if "\nbase = " not in head:
        return None
    listed = _PROJECTS.search(head)
    projects = [name] if listed is None else _NAME.findall(listed[1])
    return name, projects, "\nby-default = true" in head


def _of_indexes(project: str, heads: Sequence[_IndexesHead]) -> Iterator[tuple[str, bool]]:
    """Yield the names of families of indexes for a project, with whether they count by default."""
    for name, projects, is_by_default in heads:
        # Nearly all are plain names, and a pattern is compiled to a regular expression.
        if any(project == one or ("*" in one and fnmatchcase(project, one)) for one in projects):
            yield name, is_by_default


def _owner_name(project: str) -> str:
    owners = (name for name, is_by_default in _of_indexes(project, _indexes()) if is_by_default)
    return next(owners, "")


@cache
def _of_one_project() -> frozenset[str]:
    """Return the names of the shipped families that are called as the project they stand for."""
    return frozenset(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}"))


def has_defaults(wanted: Iterable[str]) -> bool:
    """Return whether default families count, given the names from the user.

    :param wanted: the names from the user, in order.
    """
    words = [one for one in wanted if one in (_NONE, _DEFAULT)]
    return words[-1:] != [_NONE]


class BridgeCatalogue:
    """The families that count in one command.

    :param wanted: names of families, ``all-known``, or paths of files that end with ``.toml``;
        ``NAME@URL`` has the indexes of a family elsewhere; ``none`` drops those before it and those
        that count by default, which ``default`` has back.
    :param is_of_registry: returns whether a project comes from the public registry and nowhere
        else, so that its owner's index may stand for it by default.
    :param is_forbidden: returns whether none may stand for anything; called when one would.
    :param families: the known families.
    :raises UserError: there is no such family.
    :raises FileProblem: a file cannot be read.
    :raises InvalidDocument: ``invalid-bridge``; a file breaks its rules.
    """

    def __init__(
        self,
        wanted: Iterable[str] = (),
        *,
        is_of_registry: Callable[[NormalizedName], bool] = lambda _project: False,
        is_forbidden: Callable[[], bool] = lambda: False,
        families: KnownFamilies = SHIPPED,
    ) -> None:
        self._families = families
        self._defaults = True
        self._is_of_registry = is_of_registry
        self._is_forbidden = is_forbidden
        self._unasked: dict[str, BridgeFamily | None] = {}
        self._agreed: list[BridgeFamily] = []
        self.is_wanted: Callable[[BridgeFamily, FamilyMember], bool] = lambda _family, _member: True
        """Returns whether the target could get a member of a family of indexes; others need not be
        looked up.
        """
        self.bases: dict[NormalizedName, str] = {}
        """The URLs of a family's indexes where they replace its own."""
        for text in wanted:
            self._agree(text)

    def of(self, project: NormalizedName) -> BridgeFamily | None:
        """Return the family that stands for a project; None if there is none.

        :param project: the requested project.
        """
        family = self._of(project)
        return None if family is None or self._is_forbidden() else family

    def _of(self, project: NormalizedName) -> BridgeFamily | None:
        agreed = next((one for one in self._agreed if one.stands_for(project)), None)
        if agreed is not None or not self._defaults:
            return agreed
        family = self._as_unasked(project)
        if family is not None and family.by_default and not family.is_of_indexes:
            return family
        if not self._is_of_registry(project):
            return None
        owner = self._as_unasked(_owner_name(project))
        is_owner = owner is not None and owner.by_default and owner.stands_for(project)
        return owner if is_owner else None

    def has_owners(self) -> bool:
        """Return whether the index of an owner stands for any project."""
        if not any(one.is_of_indexes for one in self._agreed) and not (
            self._defaults
            and any(
                self._is_of_registry(canonicalize_name(project))
                for _, projects, is_by_default in _indexes()
                if is_by_default
                for project in projects
            )
        ):
            return False
        return not self._is_forbidden()

    def is_agreed(self, family: BridgeFamily) -> bool:
        """Return whether the user named a family."""
        return family in self._agreed

    @property
    def agreed(self) -> tuple[BridgeFamily, ...]:
        """The families that the user named."""
        return tuple(self._agreed)

    def named(self, name: str) -> BridgeFamily | None:
        """Return a family, agreed to or not; None if there is none.

        :param name: the name of the family.
        """
        own = next((one for one in self._agreed if one.name == name), None)
        return own or self._as_unasked(name) or self._families.named(name)

    def _as_unasked(self, name: str) -> BridgeFamily | None:
        if name not in self._unasked:
            self._unasked[name] = self._families.unasked(name)
        return self._unasked[name]

    def __bool__(self) -> bool:
        return self._defaults or bool(self._agreed)

    def _agree(self, text: str) -> None:
        if text in (_NONE, _DEFAULT):
            self._defaults = text == _DEFAULT
            if text == _NONE:
                self._agreed.clear()
                self.bases.clear()
            return
        if text == ALL_KNOWN:
            for name in shipped_names():
                known = self._as_unasked(name)
                if known is not None and not known.is_of_indexes:
                    self._agreed.insert(0, known)
            return
        name, at, base = (text, "", "") if text.endswith(_SUFFIX) else text.partition("@")
        family = self._families.find(name)
        if at:
            if not base:
                raise UserError(f"{text[:80]!r} does not say where the indexes are")
            if not family.is_of_indexes:
                raise UserError(f"the bridge {family.name} has no indexes that could be elsewhere")
            self.bases[family.name] = base.rstrip("/")
        self._agreed.insert(0, family)  # of several for one project the last one counts


def _read(path: Path) -> BridgeFamily:
    from wheelfit.core.bridge_file import MAX_SIZE

    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE)
    except OSError as error:
        raise FileProblem(
            f"the family cannot be read: {error.strerror or type(error).__name__}", where=str(path)
        ) from error
    return _parsed(data, str(path))


def _parsed(data: bytes, where: str) -> BridgeFamily:
    from wheelfit.core.bridge_file import parse_family

    return parse_family(data, where=where)
