"""Let variantlib order the labels of many documents; runs alone, under variantlib's own Python.

``python variantlib_order.py CASES ANSWERS``: CASES is a JSON list of ``[document, configuration]``
with the text of a ``variants.toml`` or null. ANSWERS is written as a JSON list with, per case,
``[[label, [property, ...]], ...]`` best first, or ``{"error": "..."}`` where variantlib refuses.

variantlib takes the configuration from the working directory, where it is written.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from variantlib.api import get_variants_by_priority  # type: ignore[import-untyped,import-not-found,unused-ignore]

CONFIGURATION = Path("variants.toml")


def answer(document: dict[str, Any], configuration: str | None) -> Any:
    """Return the labels of one document with the properties that variantlib leaves them."""
    if configuration is None:
        CONFIGURATION.unlink(missing_ok=True)
    else:
        CONFIGURATION.write_text(configuration, encoding="utf-8")
    try:
        ordered = get_variants_by_priority(variants_json=document)
    except Exception as error:  # noqa: BLE001 - a refusal is an answer
        return {"error": f"{type(error).__name__}: {error}"}
    return [
        [variant.label, sorted(item.to_str() for item in variant.properties)] for variant in ordered
    ]


def main(cases: str, answers: str) -> None:
    """Answer every case of a file."""
    logging.disable()  # it also logs what it refuses
    pairs = json.loads(Path(cases).read_text(encoding="utf-8"))
    answer(*pairs[0])  # now everything is imported
    # For each case variantlib reads the metadata of everything that is installed, in search of
    # ABI dependencies, of which no case has any. There is nothing to find; that saves half.
    sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
    found = [answer(*pair) for pair in pairs]
    Path(answers).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
