"""Reasons not to publish a release although each of its files is valid."""

from __future__ import annotations

from wheelfit.checking.findings import CheckTable

REFUSALS = CheckTable()
"""The refusals by their codes."""

# Columns: code and rule, meaning, remedy.
# fmt: off
NAME_TAKEN = REFUSALS.error("name-taken", "F-131",
    "the index has a file of this name with other content, and locks may already name its hash",
    "publish a new version, or a wheel with a new build number")
REFUSED = REFUSALS.error("refused-by-index", "F-131",
    "the index refuses the file",
    "fix what the index reports, and publish again")
NOT_LISTED = REFUSALS.error("not-listed", "B-52",
    "the index accepted the file, but does not list it",
    "check whether the index has a cache or delays uploads; the same command sends missing files "
    "again")
MISSING_VARIANT = REFUSALS.error("missing-variant", "B-52",
    "a label of the project's [variant.variants] has no wheel, here or on the index",
    "build it, or remove it from the table")
MISSING_WHEEL = REFUSALS.error("missing-wheel", "B-52",
    "the project's [tool.wheelfit.matrix] has a wheel that is neither here nor on the index",
    "build it, or remove it from the matrix")
UNLISTED_VARIANT = REFUSALS.warning("unlisted-variant", "B-3",
    "a wheel has a label that the project's [variant.variants] does not list",
    "list it, so that the next release has it too")
UNTESTED_WHEEL = REFUSALS.error("untested-wheel", "B-52",
    "a variant was not tested successfully, or the tests of a wheel failed",
    "run `wheelfit test` on a machine that supports the wheel, and keep its record beside the "
    "wheels; `--ignore untested-wheel` publishes the wheel untested")
FILE_TOO_LARGE = REFUSALS.error("file-too-large", "B-53",
    "the file is larger than the index accepts",
    "make the wheel smaller, or ask the index for a higher limit and name it with --file-limit")
PROJECT_TOO_LARGE = REFUSALS.error("project-too-large", "B-53",
    "with these files the project is larger than the index allows",
    "delete old releases, or ask the index for a higher limit and name it with --project-limit")
BAD_ATTESTATION = REFUSALS.error("bad-attestation", "F-131",
    "an attestation of a file cannot be read, or is invalid",
    "sign the file again, or remove the attestation")
