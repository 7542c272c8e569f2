"""Providers and plugins, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.operations.providers import VERSIONS_NAMESPACE
from wheelfit.operations.text import columns
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.operations.providers import KnownProviders


def show_provider_list(report: KnownProviders, output: Output) -> None:
    """Print every provider and plugin that is known."""
    known = report.to_json()
    output.result_json(known)
    rows = []
    for one in known["built_in"]:
        packages = dict.fromkeys(row["package"] for row in one["stands_in_for"])
        state = f"off: {one['off']}" if one["off"] else f"built in, data of {one['data_version']}"
        rows.append((one["namespace"], state, ", ".join(packages)))
    for one in known["static_families"]:
        state = f"static, data of {one['data_version']}"
        rows.append((one["namespace"], state, "a template for pyproject.toml"))
    rows.append((VERSIONS_NAMESPACE, "built in", "versions of other packages"))
    listed = {row[0] for row in rows}
    rows += [
        (one["namespace"], f"off: {one['by']}", "")
        for one in known["disabled"]
        if one["namespace"] not in listed
    ]
    rows += [(name, "optional, enabled", "") for name in known["enabled"] if name not in listed]
    for line in columns(("Namespace", "Provider", "Stands in for"), rows):
        output.result(line)
    output.result()
    if not known["trusted"]:
        output.result("No plugin is trusted, so none is installed or run.")
    else:
        output.result("Trusted plugins")
        lines = [
            (
                f"  {one['package']}{one['versions']}",
                one["namespace"] or "any namespace",
                count_of(len(one["files"]), "file"),
                f"by {one['by']}" if one["by"] != "user" else "",
                f"not used: {one['refusal']}" if one["refusal"] else "",
            )
            for one in known["trusted"]
        ]
        for line in columns(("", "", "", "", ""), lines)[2:]:
            output.result(line)
    if known["installed"]:
        output.result()
        output.result("Installed in this environment (never asked there)")
        for plugin in known["installed"]:
            output.result(f"  {plugin['package']} {plugin['version']}  {plugin['plugin_api']}")
    _show_policies(known["policies"], output)


def show_provider_facts(about: Mapping[str, Any], output: Output) -> None:
    """Print everything about one namespace or package."""
    output.result_json(about)
    output.result(str(about["name"]), "strong")
    if about["off"]:
        output.result(f"  switched off by {about['off']}")
    if (built_in := about["built_in"]) is not None:
        output.result(f"  built in, data of {built_in['data_version']}")
        for row in built_in["stands_in_for"]:
            output.result(f"  stands in for {row['package']} {', '.join(row['versions'])}")
        _show_vocabulary(about["vocabulary"], output)
    if (family := about["static_family"]) is not None:
        output.result(f"  static, data of {family['data_version']}; for pyproject.toml:")
        for line in family["template"].rstrip().splitlines():
            output.result(f"    {line}".rstrip())
    if about["name"] == VERSIONS_NAMESPACE:
        output.result("  built in; features are names of packages, values their versions")
    for namespace in about["stood_in_for_by"]:
        output.result(
            f"  wheelfit's own {namespace} provider answers instead, where versions agree"
        )
    for one in about["trusted"]:
        by = "" if one["by"] == "user" else f" by {one['by']}"
        output.result(f"  trusted{by}: {one['package']}{one['versions']}")
        for title, value in (
            ("namespace", one["namespace"] or "any"),
            ("plugin-api", one["plugin_api"] or "any"),
            ("source", one["source"]),
            ("since", one["added"]),
            ("not used", one["refusal"]),
        ):
            if value:
                output.result(f"    {title:<11}{value}")
        for file in one["files"]:
            output.result(f"    sha256 {file['sha256']}  {file['filename']}")
        for place in one["environments"]:
            output.result(f"    installed  {place}")
    for one in about["installed"]:
        output.result(f"  installed in {one['location']}: {one['version']}, {one['plugin_api']}")
    _show_policies(about["policies"], output)


def _show_vocabulary(vocabulary: Sequence[Mapping[str, Any]], output: Output) -> None:
    flags = [one["feature"] for one in vocabulary if one["values"] == ["on"]]
    for one in vocabulary:
        if one["feature"] not in flags:
            count = len(one["values"])
            many = ", several of them per wheel" if one["multi_value"] else ""
            values = _shortened(one["values"], output)
            output.result(f"  {one['feature']}: {count_of(count, 'value')}{many}: {values}")
    if flags:
        output.result(f"  {len(flags)} features with value on: {_shortened(flags, output)}")


def _shortened(values: Sequence[str], output: Output) -> str:
    if len(values) <= 8 or output.verbosity > 0:
        return ", ".join(values)
    return f"{', '.join(values[:5])}, … {values[-1]}"


def _show_policies(policies: Iterable[Mapping[str, Any]], output: Output) -> None:
    for one in policies:
        output.result()
        words = [f'plugins = "{one["plugins"]}"']
        words += [f"off: {', '.join(one['disabled'])}"] if one["disabled"] else []
        words += [f"lists {', '.join(one['listed'])}"] if one["listed"] else []
        output.result(f"Policy {one['file']}: {'; '.join(words)}")
