"""Projects and releases as the JSON API of the public registry has them.

``/pypi/{project}/json`` and ``/pypi/{project}/{version}/json``. Data that only that registry has,
as download counts and its serial number, is left out, and so are vulnerabilities where there are no
records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.core.filename import release_of, wheel_filename_of
from wheelfit.sources.page import VARIANTS_SUFFIX, File, time_of_upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.metadata import RawMetadata
    from packaging.version import Version

    from wheelfit.core.osv import Vulnerability
    from wheelfit.server.site.facts import ProjectFacts

_TEXTS = (
    "author", "author_email", "description", "description_content_type", "download_url",
    "home_page", "license", "license_expression", "maintainer", "maintainer_email",
    "requires_python", "summary",
)  # fmt: skip
_LISTS = ("classifiers", "dynamic", "license_files", "provides_extra", "requires_dist")


def project_json(
    project: ProjectFacts,
    version: Version,
    metadata: RawMetadata,
    *,
    url_of: Callable[[File], str],
    all_releases: bool,
    vulnerabilities: Iterable[Vulnerability] | None = None,
) -> dict[str, Any]:
    """Return the description of a release.

    :param metadata: of one of its wheels.
    :param all_releases: whether the files of all other releases are described as well.
    :param vulnerabilities: of the release; None: there are no records.
    """
    by_version: dict[Version, list[dict[str, Any]]] = {key: [] for key in project.listing.releases}
    for file in project.page.files:
        release = release_of(file.filename)
        if release is not None and release[1] in by_version:
            by_version[release[1]].append(_file(file, url_of(file)))
    document: dict[str, Any] = {
        "info": _info(project, version, metadata),
        "urls": by_version[version],
    }
    if all_releases:
        document["releases"] = {str(key): files for key, files in by_version.items()}
    if vulnerabilities is not None:
        document["vulnerabilities"] = list(map(_vulnerability, vulnerabilities))
    return document


def _vulnerability(vulnerability: Vulnerability) -> dict[str, Any]:
    return {
        "id": vulnerability.id,
        "aliases": list(vulnerability.aliases),
        "summary": vulnerability.summary or None,
        "details": vulnerability.details,
        "fixed_in": list(vulnerability.fixed_in),
        "link": vulnerability.link,
        "source": "osv",
        "withdrawn": vulnerability.withdrawn,
    }


def _info(project: ProjectFacts, version: Version, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": metadata.get("name") or project.page.name,
        "version": str(project.listing.releases[version].version),
        **{name: metadata.get(name) for name in _TEXTS},
        **{name: metadata.get(name) for name in _LISTS},
        "keywords": ",".join(metadata.get("keywords") or ()),
        "project_urls": metadata.get("project_urls"),
        "yanked": version in project.yanked,
        "yanked_reason": project.yanked.get(version) or None,
    }


def _file(file: File, url: str) -> dict[str, Any]:
    uploaded = time_of_upload(file)
    return {
        "filename": file.filename,
        "url": url,
        "packagetype": _package_type(file.filename),
        "python_version": _python(file.filename),
        "requires_python": None if file.requires_python is None else str(file.requires_python),
        "digests": dict(file.hashes),
        "size": file.size,
        "upload_time": None if uploaded is None else uploaded.strftime("%Y-%m-%dT%H:%M:%S"),
        "upload_time_iso_8601": file.upload_time,
        "yanked": file.yanked is not None,
        "yanked_reason": file.yanked or None,
    }


def _package_type(filename: str) -> str:
    if filename.endswith(VARIANTS_SUFFIX):
        return "variants"
    return "bdist_wheel" if filename.endswith(".whl") else "sdist"


def _python(filename: str) -> str:
    """Return the Python tags of a wheel; ``source`` for other files."""
    if not filename.endswith(".whl"):
        return "source"
    wheel = wheel_filename_of(filename)
    return "" if wheel is None else ".".join(sorted({tag.interpreter for tag in wheel.tags}))
