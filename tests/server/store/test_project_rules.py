"""Rules for projects: expiry of releases, and quotas."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version
from server.uploading import NOW

from wheelfit.errors import UploadRefused
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.opening import open_database
from wheelfit.server.store.project_rules import ProjectRules, expired_releases, rules_of
from wheelfit.server.store.records import NewFile, StoredFile
from wheelfit.server.store.sql_records import Records
from wheelfit.server.store.tokens import open_stage

SPAM = canonicalize_name("spam")
DAY = timedelta(days=1)


def _files(versions: str) -> list[StoredFile]:
    """Return files; ``2.0-`` is yanked, ``2.0~9`` came nine days ago."""
    files = []
    for number, word in enumerate(versions.split()):
        version, _, age = word.partition("~")
        yanked = "broken" if version.endswith("-") else None
        version = version.rstrip("-")
        files.append(
            StoredFile(
                filename=f"spam-{version}-{number}.whl",
                project=SPAM,
                version=version,
                label=None,
                sha256="",
                size=1,
                uploaded=timestamp(NOW - DAY * int(age or 0)),
                requires_python=None,
                metadata_sha256=None,
                yanked=yanked,
                stage="",
                has_provenance=False,
            )
        )
    return files


@pytest.mark.parametrize(
    ("rules", "files", "expired"),
    [
        (ProjectRules(), "1.0~999 2.0.dev1~999", ""),
        (ProjectRules(keep_releases=2), "1.0 2.0 10.0", "1.0"),
        (ProjectRules(keep_releases=2), "1.0 2.0", ""),
        (ProjectRules(keep_releases=2), "1.0 1.0 2.0", ""),  # two files of one release
        (ProjectRules(keep_releases=1), "1.0 1.0.post1", "1.0"),
        (ProjectRules(keep_releases=2), "1+cpu 1+cu1 2+cpu 3+cpu 3+cu1", "1+cpu 1+cu1"),
        (ProjectRules(keep_releases=1), "1.0 2.0-", ""),  # what is yanked counts for nothing
        (ProjectRules(keep_releases=1), "1.0- 2.0 3.0", "1.0 2.0"),
        (ProjectRules(keep_releases=1), "1.0- 2.0- 3.0-", ""),
        (ProjectRules(keep_releases=1), "1.0 2.0- 2.0", "1.0"),  # yanked in part only
        (ProjectRules(keep_releases=1), "1.0rc1 1.0 2.0rc1", "1.0rc1"),
        (ProjectRules(keep_releases=1), "1.0 2.0rc1", ""),
        (ProjectRules(prerelease_retention=30 * DAY), "1.0~99 2.0a1~31 2.0rc1~30 2.0.dev1~99",
         "2.0a1"),
        (ProjectRules(dev_release_retention=30 * DAY), "1.0 2.0.dev1~31 2.0a1.dev2~31 2.0a1~99",
         "2.0.dev1 2.0a1.dev2"),
        (ProjectRules(dev_release_retention=30 * DAY), "1.0 2.0.dev1~31 2.0.dev1~1", ""),
        # A project is never left without a release that can be installed.
        (ProjectRules(dev_release_retention=DAY), "1.0.dev1~9 1.0.dev2~8", "1.0.dev1"),
        (ProjectRules(dev_release_retention=DAY), "0.9- 1.0.dev1~9 1.0.dev2~8", "1.0.dev1"),
        (ProjectRules(dev_release_retention=DAY), "1.dev1~9 1.dev2+cpu~8 1.dev2+cu1~8", "1.dev1"),
        (ProjectRules(prerelease_retention=DAY), "1.0a1-~9", "1.0a1"),
    ],
)  # fmt: skip
def test_expired_releases(rules: ProjectRules, files: str, expired: str) -> None:
    """Releases beyond a count and old pre-releases expire, but never the last usable one."""
    found = expired_releases(_files(files), rules, now=NOW)
    assert {one.version for one in found} == set(expired.split())
    for one in found:
        assert one.reason
        assert {Version(file.version) for file in one.files} == {Version(one.version)}


def test_first_matching_rules() -> None:
    """The first matching table of rules applies."""
    rules = (ProjectRules(("spam",), max_files=1), ProjectRules(("s*",), max_files=2))
    assert rules_of(rules, SPAM).max_files == 1
    assert rules_of(rules, canonicalize_name("sausage")).max_files == 2
    assert rules_of(rules, canonicalize_name("eggs")) == ProjectRules()


def test_quotas(records_url: str) -> None:
    """Quotas include stages, and deletion frees space."""
    with closing(Records(open_database(records_url))) as records:
        stage, _ = open_stage(records, "ann", now=NOW, lifetime=DAY)

        def add(version: str, size: int, rules: ProjectRules, *, staged: bool = False) -> bool:
            filename = f"spam-{version}-py3-none-any.whl"
            new = NewFile(filename, SPAM, Version(version), version, size, timestamp(NOW))
            where = stage.id if staged else ""
            records.check(new, stage=where, rules=rules)
            return records.add(new, save=lambda: None, stage=where, rules=rules)

        def refusal(version: str, size: int, rules: ProjectRules) -> str:
            with pytest.raises(UploadRefused) as excinfo:
                add(version, size, rules)
            assert [detail["reference"] for detail in excinfo.value.details] == ["over-quota"]
            return excinfo.value.message

        two, small = ProjectRules(max_files=2), ProjectRules(max_size=100)
        assert add("1.0", 60, two)
        assert add("2.0", 40, small, staged=True)
        assert "has 2 files, and may have 2" in refusal("3.0", 1, two)
        assert "has 100 bytes, and may have 100" in refusal("3.0", 1, small)
        assert not add("1.0", 60, two)  # the very same file is there already
        records.drop(stage.id)
        assert add("3.0", 40, ProjectRules(max_files=2, max_size=100))
        records.delete(["spam-1.0-py3-none-any.whl"], time=timestamp(NOW))
        assert add("4.0", 60, ProjectRules(max_files=2, max_size=100))
