"""Tell which implementation would be chosen and why: ``python -m wheelfit_runtime explain``."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from wheelfit_runtime.loader.declaration_files import plain
from wheelfit_runtime.loader.loading import explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO


def run(
    arguments: Sequence[str],
    environ: Mapping[str, str],  # noqa: ARG001 - the loader of this process has its own
    out: TextIO,
    err: TextIO,  # noqa: ARG001 - all is told on `out`
) -> int:
    """Explain, and return 0 if every group has an implementation, else 3."""
    asked = _parse(arguments)
    found = explain(*asked.group)
    if asked.json:
        out.write(json.dumps(found, indent=2) + "\n")
    else:
        out.writelines(f"{plain(line)}\n" for line in _lines(found))
    return 0 if all(one["chosen"] for one in found["groups"]) else 3


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser("python -m wheelfit_runtime explain", description=__doc__)
    parser.add_argument("group", nargs="*", help="a package with implementations; default: all")
    parser.add_argument("--json", action="store_true", help="write JSON")
    return parser.parse_args(arguments)


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield for people what `wheelfit_runtime.explain` returned."""
    if not found["groups"]:
        yield "nothing that is installed has implementations to choose from"
    for one in found["groups"]:
        yield from _group(one)
    for dimension, value in found["agreed"].items():
        yield f"all agree on {dimension} {value}"
    for one in found["held"]:
        yield f"this process has {one['dimension']} {one['value']}: {one['because']}"
    asked = {
        words.rpartition(" :: ")[0]
        for one in found["groups"]
        for each in one["implementations"]
        for words in each["properties"]
    }
    for namespace, one in found["machine"].items():
        best = {name: f"{name} {values[0]}" for name, values in one["supported"].items() if values}
        # Of the rest a machine has dozens, and nothing here depends on them.
        wanted = [words for name, words in best.items() if f"{namespace} :: {name}" in asked]
        shown = ", ".join(wanted or list(best.values())[:3])
        yield f"{namespace}: {shown or 'nothing is supported'}"
        yield from (f"  {words}" for words in (*one["warnings"], *one["overrides"]))
    yield from (f"warning: {words}" for words in found["problems"])


def _group(one: Mapping[str, Any]) -> Iterator[str]:
    state = "is in use" if one["loaded"] else "would be used"
    chosen = one["chosen"]
    nothing = "nothing fits" if one["implementations"] else "no implementation is installed"
    yield f"{one['group']}: {chosen} {state}" if chosen else f"{one['group']}: {nothing}"
    if one["demanded"]:
        named = any(each["implementation"] == one["demanded"] for each in one["implementations"])
        yield f"  {one['variable']}={one['demanded']} is set" + ("" if named else ", which is none")
    for each in one["implementations"]:
        mark = {"chosen": "*", "fits": "+", "unsupported": "-"}[each["state"]]
        needs = ", ".join(each["properties"]) or "needs nothing"
        yield f"  {mark} {each['implementation']} ({each['module']}): {needs}"
        yield from (f"      {words}" for words in each["reasons"])
    if one["could_install"]:
        yield f"  this machine can also use: pip install {' '.join(one['could_install'])}"
