"""Let variantlib read documents; runs alone, under variantlib's own Python.

``python variantlib_read.py FILES``: FILES is a JSON list of paths. Prints a JSON list with, per
file, null or why variantlib refuses it.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from variantlib.variants_json import VariantsJson  # type: ignore[import-untyped,import-not-found,unused-ignore]


def refusal(path: str) -> str | None:
    """Return why a document is refused."""
    try:
        VariantsJson(json.loads(Path(path).read_bytes()))
    except Exception as error:  # noqa: BLE001 - a refusal is an answer
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    logging.disable()  # it also logs what it refuses
    print(json.dumps([refusal(path) for path in json.loads(Path(sys.argv[1]).read_text("utf-8"))]))
