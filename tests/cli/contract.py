"""The published schemas of JSON output, without further keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SCHEMAS: dict[str, Any] = {
    path.stem: json.loads(path.read_text()) for path in (REFERENCE / "schemas").glob("*.json")
}
"""The published schemas by name; they permit further keys, which a later release may add."""
_GROUPS = ("abi", "bridges", "index", "wheel")
"""Commands whose subcommands have schemas of their own."""
_SHARED = {
    **dict.fromkeys(("bridges-list", "bridges-show"), "bridges"),
    **dict.fromkeys(("index-unyank", "index-delete"), "index-yank"),
    **dict.fromkeys(
        ("wheel-relabel", "wheel-unmake", "wheel-repair", "wheel-convert", "wheel-repack"),
        "wheel-make",
    ),
    "wheel-check": "check",
}
"""The schemas of subcommands that print the object of another one."""
FORMS = {
    "demo": {"--gpu": "demo-gpu"},
    "explain": {"--all": "explain-all"},
    "list": {"--outdated": "list-outdated", "-o": "list-outdated"},
    "wheel-repack": {"--plan": "wheel-repack-plan"},
}
"""The schemas of commands that print another object with an option."""


def schema_of(words: Sequence[str]) -> str:
    """Return the name of the schema for the output of a command line."""
    name = "-".join(words[:2]) if words[0] in _GROUPS else words[0]
    forms = (schema for option, schema in FORMS.get(name, {}).items() if option in words)
    return next(forms, _SHARED.get(name, name))


def check_object(name: str, value: object) -> None:
    """Check that an object has exactly the keys of a schema, with the right types."""
    _validator(name).validate(value)


@cache
def _validator(name: str) -> Draft202012Validator:
    resources = [
        (f"{other}.json", Resource.from_contents(_closed(schema)))
        for other, schema in SCHEMAS.items()
    ]
    registry: Registry[Any] = Registry().with_resources(resources)
    return Draft202012Validator({"$ref": f"{name}.json"}, registry=registry)


def _closed(schema: Any) -> Any:
    """Return a schema without further keys."""
    if isinstance(schema, list):
        return [_closed(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "required" in schema:
        result.setdefault("additionalProperties", False)
    return result
