"""Tell which implementation would be chosen and why: ``python -m wheelfit_runtime explain``."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from wheelfit_runtime.loader.declaration_files import plain
from wheelfit_runtime.loader.loading import explain
from wheelfit_runtime.platforms.child_processes import RealProcesses
from wheelfit_runtime.platforms.system_view import interpreter_of_this_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO


def run(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    out: TextIO,
    err: TextIO,
) -> int:
    """Explain, and return 0 if every group has an implementation, else 3."""
    asked = _parse(arguments)
    found = explain(*asked.group)
    if asked.tries:
        from wheelfit_runtime.loader.trying import add_trials  # noqa: PLC0415 - if asked for

        interpreter = interpreter_of_this_process()
        if interpreter is None:
            err.write("error: --try needs a Python to start, and a frozen application has none\n")
            return 1
        add_trials(found, environ, interpreter, RealProcesses())
    if asked.json:
        out.write(json.dumps(found, indent=2) + "\n")
    else:
        out.writelines(f"{plain(line)}\n" for line in _lines(found))
    return 0 if all(map(_has_one, found["groups"])) else 3


def _has_one(group: Mapping[str, Any]) -> bool:
    """Return whether a group has an implementation; where it was tried, whether it loads."""
    if "tried" in group:
        return bool(group["tried"]["implementation"])
    return bool(group["chosen"])


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser("python -m wheelfit_runtime explain", description=__doc__)
    parser.add_argument("group", nargs="*", help="a package with implementations; default: all")
    words = "load each that fits in a child process, and tell what happens"
    parser.add_argument("--try", dest="tries", action="store_true", help=words)
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
    if "tried" in one:
        taken = one["tried"]["implementation"]
        yield f"  tried: {f'{taken} is used' if taken else one['tried']['message']}"
        yield from (f"    warning: {words}" for words in one["tried"]["warnings"])
    if one["demanded"]:
        named = any(each["implementation"] == one["demanded"] for each in one["implementations"])
        yield f"  {one['variable']}={one['demanded']} is set" + ("" if named else ", which is none")
    for each in one["implementations"]:
        mark = {"chosen": "*", "fits": "+", "unsupported": "-"}[each["state"]]
        needs = ", ".join(each["properties"]) or "needs nothing"
        yield f"  {mark} {each['implementation']} ({each['module']}): {needs}"
        yield from (f"      {words}" for words in each["reasons"])
        if each.get("tried"):
            is_loaded = each["tried"]["implementation"] is not None
            result = f"loads in {each['tried']['seconds']:.1f} s"
            yield f"      tried: {result if is_loaded else each['tried']['message']}"
    if one["could_install"]:
        yield f"  this machine can also use: pip install {' '.join(one['could_install'])}"
