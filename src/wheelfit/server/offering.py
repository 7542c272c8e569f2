"""The operator's rules about the files of other indexes: which are offered, and why others not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.filename import parse_index_file_name, release_of
from wheelfit.sources.cooldown import Cooldown
from wheelfit.sources.file_readers import Around
from wheelfit.sources.page import time_of_upload

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.osv import Vulnerability
    from wheelfit.sources.advisories import Advisories
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Repository


_MINUTE = 60.0
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class OfferRules:
    """The rules about files of other indexes; by default all are offered."""

    cooldown: Cooldown = Cooldown()
    """The points in time before which files must have been uploaded."""
    advisories: Advisories | None = None
    """Releases with one of these vulnerabilities are not offered."""

    def concern(self, name: NormalizedName) -> bool:
        """Return whether a file of a project may not be offered."""
        is_known = self.advisories is not None and self.advisories.concern(name)
        return is_known or self.cooldown.cutoff(name) is not None

    def stamp(self, name: NormalizedName) -> Hashable:
        """Return a value that stays equal as long as the same files of a page are offered."""
        if not self.concern(name):
            return None
        generation = 0 if self.advisories is None else self.advisories.generation
        is_moving = self.cooldown.cutoff(name) is not None
        return generation, int(time.time() // _MINUTE) if is_moving else 0

    def applied(
        self, page: ProjectPage, note: Callable[[str], None] = lambda _text: None
    ) -> ProjectPage:
        """Return a page without the files that are not offered, which it lists with the reasons.

        :param note: gets projects whose files have no times of upload.
        """
        if not self.concern(page.name):
            return page
        files, withheld = self.sorted(page.name, page.files)
        if not withheld:
            return page
        self.cooldown.admitted(page, note)  # which notes an index that gives no times
        return replace(page, files=files, withheld=tuple(withheld.items()), fresh=0.0)

    def sorted(
        self, name: NormalizedName, files: Iterable[File]
    ) -> tuple[tuple[File, ...], Mapping[str, str]]:
        """Return the files that are offered, and the reasons of the others by their names.

        A document of variants is removed with the last wheel of its release.
        """
        reasons: dict[Version, str] = {}
        offered: list[File] = []
        withheld: dict[str, str] = {}
        for file in files:
            release = release_of(file.filename)
            version = None if release is None else release[1]
            if version is not None and version not in reasons:
                reasons[version] = self._vulnerable(name, version)
            reason = reasons[version] if version is not None else ""
            if not (reason or _is_document(file)):
                reason = self._too_late(name, file)
            if reason:
                withheld[file.filename] = reason
            else:
                offered.append(file)
        if withheld:
            left = {release_of(file.filename) for file in offered if not _is_document(file)}
            gone = {release_of(filename): reason for filename, reason in withheld.items()}
            for file in filter(_is_document, tuple(offered)):
                release = release_of(file.filename)
                if release in gone and release not in left:
                    withheld[file.filename] = gone[release]
                    offered.remove(file)
        return tuple(offered), withheld

    def _vulnerable(self, name: NormalizedName, version: Version) -> str:
        """Return the vulnerabilities that withhold a release, in words; empty if none does."""
        if self.advisories is None:
            return ""
        advisories = [
            one for one in self.advisories.affecting(name, version) if one.withdrawn is None
        ]
        if not advisories:
            return ""
        return f"{name} {version} has known vulnerabilities: {vulnerabilities_in_words(advisories)}"

    def _too_late(self, name: NormalizedName, file: File) -> str:
        """Return the reason why a file is withheld as too recent; empty if it is offered."""
        if not self.cooldown.refuses(name, file):
            return ""
        cutoff = self.cooldown.exceptions.get(name, self.cooldown.usual)
        when = time_of_upload(file)
        uploaded = "the index does not tell when it was uploaded" if when is None else (
            f"it was uploaded at {when.isoformat()}"
        )  # fmt: skip
        return f"{uploaded}, and only files that were uploaded {cutoff} are offered"


class Offered(Around):
    """The files of a repository that are offered: a `Repository`."""

    def __init__(self, repository: Repository, rules: OfferRules) -> None:
        super().__init__(repository)
        self._rules = rules

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project with the files that are offered."""
        page = self._repository.project(name)
        return None if page is None else self._rules.applied(page)


def _is_document(file: File) -> bool:
    return parse_index_file_name(file.filename) is not None


def why_withheld(page: ProjectPage, release: tuple[NormalizedName, Version] | None) -> str:
    """Return the reason why files of a release are withheld; empty if all are offered."""
    reasons = (why for name, why in page.withheld if release_of(name) == release)
    return next(reasons, "") if release is not None else ""


def vulnerabilities_in_words(vulnerabilities: Iterable[Vulnerability]) -> str:
    """Return vulnerabilities as a list without duplicates of several databases."""
    words = []
    named: set[str] = set()
    for one in vulnerabilities:
        if not named.isdisjoint((one.id, *one.aliases)):
            continue
        named.update((one.id, *one.aliases))
        others = f" ({', '.join(one.aliases[:_MOST_NAMED])})" if one.aliases else ""
        fixed = f", fixed in {', '.join(one.fixed_in[:_MOST_NAMED])}" if one.fixed_in else ""
        words.append(f"{one.id}{others}{fixed}")
    more = len(words) - _MOST_NAMED
    shown = "; ".join(words[:_MOST_NAMED])
    return f"{shown}; and {more} more" if more > 0 else shown
