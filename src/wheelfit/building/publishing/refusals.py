"""The reason why a set of files is not published although each of them is sound."""

from __future__ import annotations

from wheelfit.checking.findings import CheckTable

REFUSALS = CheckTable()
"""The refusals by their codes."""

# A table: its code and its rule, its meaning, its remedy.
# fmt: off
NAME_TAKEN = REFUSALS.error("name-taken", "F-131",
    "the index has a file of this name with other content, and locks have its hash",
    "publish a new version, or a wheel with a new build number")
REFUSED = REFUSALS.error("refused-by-index", "F-131",
    "the index refuses the file",
    "mend what the index names, and publish again")
NOT_LISTED = REFUSALS.error("not-listed", "B-52",
    "the index took the file, and does not list it afterwards",
    "look whether the index is behind a cache or holds uploads back; the same command sends again "
    "what is not there")
MISSING_VARIANT = REFUSALS.error("missing-variant", "B-52",
    "a label of the project's [variant.variants] has no wheel, here or on the index",
    "build it, or take it out of the table")
MISSING_WHEEL = REFUSALS.error("missing-wheel", "B-52",
    "the project's [tool.wheelfit.matrix] has a wheel that is neither here nor on the index",
    "build it, or take it out of the matrix")
UNLISTED_VARIANT = REFUSALS.warning("unlisted-variant", "B-3",
    "a wheel has a label that the project's [variant.variants] does not list",
    "list it, so that the next release has it too")
UNTESTED_WHEEL = REFUSALS.error("untested-wheel", "B-52",
    "`wheelfit test` was used, and tests of a variant did not pass, or those of any wheel failed",
    "run `wheelfit test` on a machine that supports the wheel, and keep its record beside the "
    "wheels; `--ignore untested-wheel` publishes without")
FILE_TOO_LARGE = REFUSALS.error("file-too-large", "B-53",
    "the file is larger than the index takes",
    "make the wheel smaller, or ask the index for a higher limit and name it with --file-limit")
PROJECT_TOO_LARGE = REFUSALS.error("project-too-large", "B-53",
    "with these files the project is larger than the index allows",
    "delete old releases, or ask the index for a higher limit and name it with --project-limit")
BAD_ATTESTATION = REFUSALS.error("bad-attestation", "F-131",
    "what was attested about a file cannot be read or does not hold",
    "sign this very file anew, or remove the attestation")
