"""The operator's rules that decide which files of other indexes are offered or withheld."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.filename import parse_index_file_name, release_of
from wheelfit.sources.cooldown import Cooldown
from wheelfit.sources.file_readers import RepositoryWrapper
from wheelfit.sources.page import File, ProjectPage, time_of_upload

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.osv import Vulnerability
    from wheelfit.sources.advisories import Advisories
    from wheelfit.sources.repository import Repository


_MINUTE = 60.0
_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class OfferRules:
    """The rules about files of other indexes; the default offers all files."""

    cooldown: Cooldown = Cooldown()
    """The times before which files must have been uploaded."""
    advisories: Advisories | None = None
    """The vulnerabilities whose releases are withheld."""

    def may_withhold(self, name: NormalizedName) -> bool:
        """Return whether the rules may withhold files of a project."""
        has_advisories = self.advisories is not None and self.advisories.may_affect(name)
        return has_advisories or self.cooldown.cutoff(name) is not None

    def stamp(self, name: NormalizedName) -> Hashable:
        """Return a value that changes whenever other files of a project may be offered."""
        if not self.may_withhold(name):
            return None
        generation = 0 if self.advisories is None else self.advisories.generation
        has_cutoff = self.cooldown.cutoff(name) is not None
        return generation, int(time.time() // _MINUTE) if has_cutoff else 0

    def filter_page(
        self, page: ProjectPage, note: Callable[[str], None] = lambda _text: None
    ) -> ProjectPage:
        """Return a page with the offered files, and the reasons for withholding the others.

        :param note: called for a project whose files have no times of upload.
        """
        if not self.may_withhold(page.name):
            return page
        files, withheld = self.split(page.name, page.files)
        if not withheld:
            return page
        self.cooldown.admitted(page, note)  # only to call `note`
        return replace(page, files=files, withheld=tuple(withheld.items()), fresh_seconds=0.0)

    def split(
        self, name: NormalizedName, files: Iterable[File]
    ) -> tuple[tuple[File, ...], Mapping[str, str]]:
        """Return the offered files, and the reasons for withholding the others by file name.

        The index file of a release is withheld if all its wheels are.
        """
        vulnerability_reasons: dict[Version, str] = {}
        offered: list[File] = []
        withheld: dict[str, str] = {}
        for file in files:
            release = release_of(file.filename)
            version = None if release is None else release[1]
            if version is not None and version not in vulnerability_reasons:
                vulnerability_reasons[version] = self._vulnerability_reason(name, version)
            reason = vulnerability_reasons[version] if version is not None else ""
            if not (reason or _is_index_file(file)):
                reason = self._recent_upload_reason(name, file)
            if reason:
                withheld[file.filename] = reason
            else:
                offered.append(file)
        if withheld:
            releases_with_wheels = {
                release_of(file.filename) for file in offered if file.filename.endswith(".whl")
            }
            reason_of_release = {
                release_of(filename): reason for filename, reason in withheld.items()
            }
            for file in filter(_is_index_file, tuple(offered)):
                release = release_of(file.filename)
                if release in reason_of_release and release not in releases_with_wheels:
                    withheld[file.filename] = reason_of_release[release]
                    offered.remove(file)
        return tuple(offered), withheld

    def _vulnerability_reason(self, name: NormalizedName, version: Version) -> str:
        """Return the reason to withhold a vulnerable release; empty if there is none."""
        if self.advisories is None:
            return ""
        affecting = self.advisories.affecting(name, version)
        valid = [vulnerability for vulnerability in affecting if vulnerability.withdrawn is None]
        if not valid:
            return ""
        return f"{name} {version} has known vulnerabilities: {_list_vulnerabilities(valid)}"

    def _recent_upload_reason(self, name: NormalizedName, file: File) -> str:
        """Return the reason to withhold a file as too recent; empty if there is none."""
        if not self.cooldown.refuses(name, file):
            return ""
        cutoff = self.cooldown.exceptions.get(name, self.cooldown.default)
        upload_time = time_of_upload(file)
        if upload_time is None:
            fact = "the index does not list its upload time"
        else:
            fact = f"it was uploaded at {upload_time.isoformat()}"
        return f"{fact}, and only files that were uploaded {cutoff} are offered"


class OfferedRepository(RepositoryWrapper):
    """A repository without the files that rules withhold."""

    def __init__(self, repository: Repository, rules: OfferRules) -> None:
        super().__init__(repository)
        self._rules = rules

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project with the offered files; None if there is no project."""
        page = self._repository.project(name)
        return None if page is None else self._rules.filter_page(page)


def _is_index_file(file: File) -> bool:
    return parse_index_file_name(file.filename) is not None


def withheld_reason(page: ProjectPage, release: tuple[NormalizedName, Version] | None) -> str:
    """Return the reason for withholding files of a release; empty if all are offered."""
    if release is None:
        return ""
    return next((reason for name, reason in page.withheld if release_of(name) == release), "")


def _list_vulnerabilities(vulnerabilities: Iterable[Vulnerability]) -> str:
    """Return a text that lists vulnerabilities, each once even if several databases have it."""
    items = []
    reported: set[str] = set()
    for vulnerability in vulnerabilities:
        ids = (vulnerability.id, *vulnerability.aliases)
        if not reported.isdisjoint(ids):
            continue
        reported.update(ids)
        item = vulnerability.id
        if vulnerability.aliases:
            item += f" ({', '.join(vulnerability.aliases[:_MAX_LISTED])})"
        if vulnerability.fixed_in:
            item += f", fixed in {', '.join(vulnerability.fixed_in[:_MAX_LISTED])}"
        items.append(item)
    hidden = len(items) - _MAX_LISTED
    text = "; ".join(items[:_MAX_LISTED])
    return f"{text}; and {hidden} more" if hidden > 0 else text
