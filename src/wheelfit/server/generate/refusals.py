"""Why a file that is sound by itself does not become part of an index all the same."""

from __future__ import annotations

from wheelfit.checking.findings import Check, Severity

SAME_NAME = Check(
    "same-name",
    "F-131",
    Severity.ERROR,
    "two files have one name, or differ in upper and lower case only",
    "keep the one that is meant",
)
CHANGED_FILE = Check(
    "changed-file",
    "F-131",
    Severity.ERROR,
    "a file of this name was published with other content, and locks have its hash",
    "publish a new version or a new build number; --replace takes it all the same",
)
INCOMPLETE_RELEASE = Check(
    "incomplete-release",
    "F-131",
    Severity.ERROR,
    "a file of the release is published already and not in the folder",
    "put all files of the release into the folder",
)
FOREIGN_PROVENANCE = Check(
    "foreign-provenance",
    "F-131",
    Severity.ERROR,
    "what was attested is no provenance object, or about another file",
    "put the provenance of this very file beside it, or remove it",
)
