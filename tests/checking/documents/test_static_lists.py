"""Values that a static list does not have."""

from __future__ import annotations

import json

import pytest

from wheelfit.checking.documents.document import check_variant_document
from wheelfit.checking.findings import Location
from wheelfit.testing.wheels import release_document


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["mkl", "mlk"], "mlk is not in the static list of blas :: library"),
        (["mkl", "mlk", "x"], "mlk and x are not in the static list of blas :: library"),
    ],
)
def test_dead_values(values: list[str], message: str) -> None:
    """F-28: The sentence is right for one value and for several."""
    document = release_document(
        {"a": {"blas": {"library": values}}}, static={"blas": {"library": ["mkl", "openblas"]}}
    )
    findings, _ = check_variant_document(json.dumps(document).encode(), Location("a.json"))
    assert message in [finding.message for finding in findings if finding.code == "dead-value"]
