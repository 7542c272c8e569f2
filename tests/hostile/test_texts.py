"""Texts built to make a reader slow: names, properties, markers, schemas.

Nothing is timed: with 200,000 characters a reader that tries things twice would not come back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from wheelfit.core.filename import parse_index_file_name, parse_wheel_filename
from wheelfit.core.labels import parse_label
from wheelfit.core.markers import parse_marker
from wheelfit.core.ordering import parse_preference
from wheelfit.core.properties import parse_namespace, parse_property
from wheelfit.core.providers import parse_endpoint
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.variant_json_layouts.schema import parse_schema

LONG = 200_000
TEXTS = {
    "blanks inside": "a" + " " * LONG + "b",
    "blanks around the colons": "a ::" + " " * LONG + ":: b",
    "colons": ":" * LONG,
    "parts": "a :: " * LONG,
    "lines": "a :: b :: c" + "\n" * LONG,
    "one word": "a" * LONG,
    "dashes": "-" * LONG + ".whl",
    "tags": "demo-1-" + "py3." * LONG + "py3-none-any.whl",
    "many combinations of tags": f"demo-1-{'a.' * 400}a-{'b.' * 400}b-{'c.' * 400}c.whl",
    "a long version": "demo-" + "1." * LONG + "1-py3-none-any.whl",
    "a long build": "demo-1-" + "1" * LONG + "-py3-none-any.whl",
    "a long label": "demo-1-py3-none-any-" + "x" * LONG + ".whl",
    "percent signs": "%25" * LONG + ".whl",
    "blanks in a literal": '"a ::' + " " * LONG + ':: b" in variant_properties',
    "parts in a literal": '"' + "a :: " * LONG + '" in variant_properties',
    "parentheses": "(" * LONG + 'os_name == "posix"' + ")" * LONG,
    "ands": 'os_name == "posix" and ' * (LONG // 20) + 'os_name == "posix"',
    "a schema": "https://variants-schema.wheelnext.dev/" + "v1." * LONG + ".json",
    "an endpoint": "a." * LONG + ":b",
    "a requirement": "a" + " " * LONG + ";" + " " * LONG,
    "an index file": "a" * LONG + "-1-variants.json",
}
READERS: dict[str, Callable[[str], object]] = {
    "property": parse_property,
    "namespace": parse_namespace,
    "wish": parse_preference,
    "label": parse_label,
    "marker": parse_marker,
    "requirement": lambda text: parse_requirement(text, allow_variant_markers=True),
    "wheel": parse_wheel_filename,
    "index file": parse_index_file_name,
    "schema": parse_schema,
    "endpoint": parse_endpoint,
}


@pytest.mark.parametrize("text", TEXTS)
def test_it_comes_to_an_end(text: str) -> None:
    """F-5, F-12, F-40, F-105, P-7: a text is read or refused in linear time, whatever it is."""
    for reader in READERS.values():
        with suppress(ValueError):
            reader(TEXTS[text])
