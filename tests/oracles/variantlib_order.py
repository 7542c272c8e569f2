"""Let variantlib order the labels of many documents; runs alone, under variantlib's own Python.

``python variantlib_order.py CASES ANSWERS``: CASES is a JSON list of documents; ANSWERS is
written as a JSON list with, per document, ``[[label, [property, ...]], ...]`` best first, or
``{"error": "..."}`` where variantlib refuses.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from variantlib.api import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
    get_variants_by_priority,
)


def answer(document: dict[str, Any]) -> Any:
    """Return the labels of one document with the properties that variantlib leaves them."""
    try:
        ordered = get_variants_by_priority(variants_json=document)
    except Exception as error:  # noqa: BLE001 - a refusal is an answer
        return {"error": f"{type(error).__name__}: {error}"}
    return [
        [variant.label, sorted(item.to_str() for item in variant.properties)] for variant in ordered
    ]


def main(cases: str, answers: str) -> None:
    """Answer every case of a file."""
    documents = json.loads(Path(cases).read_text(encoding="utf-8"))
    found = [answer(document) for document in documents]
    Path(answers).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
