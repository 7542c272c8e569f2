"""Providers, trust in plugins, and bridges, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.operations.providers import VERSIONS_NAMESPACE, ProvidersReport
from wheelfit.operations.text import columns
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.operations.bridge_checks import BridgeChecksReport
    from wheelfit.operations.bridges import BridgesReport, BridgeUpdateReport
    from wheelfit.operations.trust import SwitchReport, TrustPlan, TrustReport, UntrustReport
    from wheelfit.sources.bridges.catalogue import KnownFamilies


def show_provider_list(report: ProvidersReport, output: Output) -> None:
    """Print the known providers and plugins."""
    known = report.to_json()
    rows = []
    for provider in known["built_in"]:
        packages = dict.fromkeys(row["package"] for row in provider["emulates"])
        state = f"built in, data of {provider['data_version']}"
        if provider["off"]:
            state = f"off: {provider['off']}"
        rows.append((provider["namespace"], state, ", ".join(packages)))
    for family in known["static_families"]:
        state = f"static, data of {family['data_version']}"
        rows.append((family["namespace"], state, "a template for pyproject.toml"))
    rows.append((VERSIONS_NAMESPACE, "built in", "versions of other packages"))
    namespaces = {row[0] for row in rows}
    rows += [
        (entry["namespace"], f"off: {entry['by']}", "")
        for entry in known["disabled"]
        if entry["namespace"] not in namespaces
    ]
    rows += [(name, "optional, enabled", "") for name in known["enabled"] if name not in namespaces]
    output.table(("Namespace", "Provider", "Stands in for"), rows)
    output.result()
    if not known["trusted"]:
        output.result("No plugin is trusted, so none is installed or run.")
    else:
        output.result("Trusted plugins")
        lines = [
            (
                f"  {entry['package']}{entry['versions']}",
                entry["namespace"] or "any namespace",
                count_of(len(entry["files"]), "file"),
                f"by {entry['by']}" if entry["by"] != "user" else "",
                f"not used: {entry['refusal']}" if entry["refusal"] else "",
            )
            for entry in known["trusted"]
        ]
        # Without the heading and the line below it.
        for line in columns(("", "", "", "", ""), lines)[2:]:
            output.result(line)
    _show_policies(known["policies"], output)


def show_provider_facts(facts: Mapping[str, Any], output: Output) -> None:
    """Print the facts about one namespace or package."""
    output.result(str(facts["name"]), "strong")
    if facts["off"]:
        output.result(f"  switched off by {facts['off']}")
    if (built_in := facts["built_in"]) is not None:
        output.result(f"  built in, data of {built_in['data_version']}")
        for row in built_in["emulates"]:
            output.result(f"  stands in for {row['package']} {', '.join(row['versions'])}")
        _show_vocabulary(facts["vocabulary"], output)
    if (family := facts["static_family"]) is not None:
        output.result(f"  static, data of {family['data_version']}; for pyproject.toml:")
        for line in family["template"].rstrip().splitlines():
            output.result(f"    {line}".rstrip())
    if facts["name"] == VERSIONS_NAMESPACE:
        output.result("  built in; features are names of packages, values their versions")
    for namespace in facts["emulated_by"]:
        output.result(
            f"  wheelfit's {namespace} provider is used instead, for the versions that it emulates"
        )
    for entry in facts["trusted"]:
        origin = "" if entry["by"] == "user" else f" by {entry['by']}"
        output.result(f"  trusted{origin}: {entry['package']}{entry['versions']}")
        for title, value in (
            ("namespace", entry["namespace"] or "any"),
            ("plugin-api", entry["plugin_api"] or "any"),
            ("source", entry["source"]),
            ("since", entry["added"]),
            ("not used", entry["refusal"]),
        ):
            if value:
                output.result(f"    {title:<11}{value}")
        for file in entry["files"]:
            output.result(f"    sha256 {file['sha256']}  {file['filename']}")
        for place in entry["environments"]:
            output.result(f"    installed  {place}")
    _show_policies(facts["policies"], output)


def _show_vocabulary(vocabulary: Sequence[Mapping[str, Any]], output: Output) -> None:
    flags = [feature["feature"] for feature in vocabulary if feature["values"] == ["on"]]
    for feature in vocabulary:
        if feature["feature"] not in flags:
            count = len(feature["values"])
            note = ", several of them per wheel" if feature["multi_value"] else ""
            values = _first_and_last(feature["values"], output)
            output.result(f"  {feature['feature']}: {count_of(count, 'value')}{note}: {values}")
    if flags:
        count_text = count_of(len(flags), "feature")
        output.result(f"  {count_text} with value on: {_first_and_last(flags, output)}")


def _first_and_last(values: Sequence[str], output: Output) -> str:
    """Join values; of more than eight, only the first five and the last, unless verbose."""
    if len(values) <= 8 or output.verbosity > 0:
        return ", ".join(values)
    return f"{', '.join(values[:5])}, … {values[-1]}"


def _show_policies(policies: Iterable[Mapping[str, Any]], output: Output) -> None:
    for policy in policies:
        output.result()
        words = [f'plugins = "{policy["plugins"]}"']
        words += [f"off: {', '.join(policy['disabled'])}"] if policy["disabled"] else []
        words += [f"lists {', '.join(policy['listed'])}"] if policy["listed"] else []
        output.result(f"Policy {policy['file']}: {'; '.join(words)}")


def show_trust(report: TrustReport, output: Output, *, with_plan: bool) -> None:
    """Print the plugin that is trusted now.

    :param with_plan: whether to list the files, if the user has not seen them before.
    """
    if with_plan:
        for line in plan_lines(report.plan):
            output.report(line)
    entry = report.plan.entry
    output.report(f"trusted: {entry.package}{entry.versions}; written to {report.file}")


def show_untrust(report: UntrustReport, output: Output) -> None:
    """Print the plugins that are no longer trusted."""
    output.report(f"no longer trusted: {', '.join(report.packages)}")
    for folder in report.removed:
        output.note(f"removed {folder}")


def show_switch(report: SwitchReport, output: Output) -> None:
    """Print the providers that were enabled or disabled."""
    switched = "enabled" if report.on else "disabled"
    output.report(f"{switched}: {', '.join(report.namespaces)}; written to {report.file}")


def plan_lines(plan: TrustPlan) -> list[str]:
    """Return the lines about the files of a plugin to trust."""
    entry = plan.entry
    lines = [f"{entry.package}{entry.versions} consists of"]
    for wheel in plan.wheels:
        file = wheel.pin.file
        size = "" if file.size is None else f", {file.size:,} bytes"
        upload_time = f", uploaded {file.upload_time[:10]}" if file.upload_time else ""
        lines += [
            f"  {wheel.pin.name} {wheel.pin.version}",
            f"    file    {wheel.pin.filename.text}{size}{upload_time}",
            f"    sha256  {wheel.sha256}",
            f"    from    {wheel.origin}",
        ]
    namespace = f"namespace {entry.namespace}" if entry.namespace else "namespaces that name it"
    endpoint = entry.plugin_api or "any endpoint"
    lines.append(f"It may detect the {namespace} through {endpoint}.")
    return lines


def show_bridge_table(report: BridgesReport, output: Output) -> None:
    """Print one line for each family."""
    rows = [
        (
            family.name,
            "always" if family.by_default else f"with --bridge {family.name}",
            ", ".join(family.projects if family.is_of_indexes else family.distributions),
        )
        for family in report.families
    ]
    output.table(("family", "used", "members"), rows)
    output.note(_edition(report.available))


def _edition(families: KnownFamilies) -> str:
    """Return the edition of the families in use, in words."""
    origin = "by `wheelfit bridges update`" if families.is_update else "as shipped"
    return f"the families of {families.version}, {origin}"


def show_bridge_update(report: BridgeUpdateReport, output: Output) -> None:
    """Print the result of updating the families."""
    outcomes = {"current": "nothing newer", "removed": "removed the update"}
    edition = _edition(report.families)
    output.report(f"{outcomes.get(report.action, report.action)}; in use: {edition}")
    update = report.update
    if update is None or report.action != "updated":
        return
    signed = f"signed by {', '.join(update.signers)}" if update.signers else "not signed"
    output.report(f"  from     {update.source}, {signed}")
    output.report(f"  sha256   {update.sha256}")
    for title, names in (("new", report.added), ("changed", report.changed)):
        if names:
            output.report(f"  {title:8} {', '.join(names)}")
    for name, reason in update.left_out.items():
        output.report(f"{name} is left out: {reason}")
    for name, clauses in report.restricted.items():
        output.report(
            f"the update of {name} is not used, because it {', '.join(clauses)}; accept it with "
            f"--bridge {name}"
        )


def show_bridge_checks(report: BridgeChecksReport, output: Output) -> None:
    """Print the families with faults, and the number of correct ones."""
    faulty = [check for check in report.families if check.faults]
    for check in faulty:
        output.result(check.family.name, "bad")
        for fault in check.faults:
            output.paragraph(f"  {fault}", hang=4)
    if output.verbosity > 0:
        for check in report.families:
            newest = ", ".join(f"{name} {version}" for name, version in check.newest.items())
            output.paragraph(f"{check.family.name}: {newest}", hang=4)
    sound_count = len(report.families) - len(faulty)
    output.result(f"{sound_count} of {len(report.families)} families agree with their indexes")


def show_bridge_members(report: BridgesReport, output: Output) -> None:
    """Print families with all their members."""
    for number, family in enumerate(report.families):
        if number:
            output.result("")
        _show_family(family, output)


def _show_family(family: BridgeFamily, output: Output) -> None:
    output.result(family.name, "strong")
    usage = f"with --bridge {family.name}"
    if family.by_default:
        usage = "always, unless bridges = [] or --no-bridges turns it off"
    output.paragraph(f"  used        {usage}", hang=12)
    for member in family.members:
        name = f"{member.distribution} in {member.index}" if member.index else member.distribution
        releases = f", releases {member.versions}" if str(member.versions) else ""
        output.paragraph(f"  member      {name}{releases}: {member.condition}", hang=12)
    if family.is_of_indexes:
        output.paragraph(f"  projects    {', '.join(family.projects)}", hang=12)
        output.paragraph(f"  indexes at  {family.base}", hang=12)
    if family.extras:
        output.paragraph(f"  extras      {', '.join(family.extras)}", hang=12)
    if family.no_fit:
        output.paragraph(f"  otherwise   {family.no_fit}", hang=12)
    output.paragraph(f"  because     {family.says}", hang=12)
    output.paragraph(f"              ({family.source}; compared {family.checked})", hang=12)
