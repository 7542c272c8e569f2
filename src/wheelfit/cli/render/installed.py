"""Installed packages, their details, and why they are there, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.list import InstalledReport, project_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.cli.output import Output
    from wheelfit.installation.dependencies import InstalledRequirement
    from wheelfit.installation.installed import Installed
    from wheelfit.operations.freeze import FreezeReport
    from wheelfit.operations.outdated import OutdatedReport
    from wheelfit.operations.show import PackageDetails, PackageVariant, ShowReport
    from wheelfit.operations.why import RequirementLink, WhyReport


def show_installed(report: InstalledReport, output: Output) -> None:
    """Print the packages of an environment."""
    rows = [
        (entry.name, str(entry.version), entry.label or "", _remark(entry))
        for entry in report.packages
    ]
    output.table(("Package", "Version", "Variant", "Remark"), rows)
    if not rows:
        output.summary(
            f"No {'variants' if report.variants else 'packages'} in {report.environment}"
        )
    for broken in report.broken:
        output.warn(f"{broken.path}: {broken.reason}")
    for entry in report.packages:
        for note in entry.notes:
            output.detail(f"{entry}: {note}")


def show_outdated(report: OutdatedReport, output: Output) -> None:
    """Print the packages with a newer release."""
    for name, reason in report.unreadable:
        output.warn(f"the releases of {name} could not be read: {reason}")
    if report.unknown:
        output.note(f"note: in no index: {', '.join(report.unknown)}")
    rows = [
        (
            package.installed.name,
            str(package.installed.version),
            package.installed.label or "",
            str(package.latest),
            package.label or "",
            package.kind,
        )
        for package in report.packages
    ]
    heads = ("Package", "Version", "Variant", "Latest", "Latest variant", "Type")
    output.table(heads, rows)
    if not rows:
        output.summary(f"No package of {report.environment} has a newer release")


def show_frozen(report: FreezeReport, output: Output) -> None:
    """Print the lines of a requirements file."""
    for package in report.packages:
        output.result(package.line)
    if not report.packages:
        output.summary(f"No packages to freeze in {report.environment}")
    for broken in report.broken:
        output.warn(f"{broken.path}: {broken.reason}")


def _remark(entry: Installed) -> str:
    place = project_folder(entry)
    remarks = {
        f"editable: {place}" if place else "editable": entry.editable,
        "outside this environment": entry.outside,
        "legacy": entry.legacy and not entry.editable,
    }
    return ", ".join(remark for remark, applies in remarks.items() if applies)


def show_details(report: ShowReport, output: Output) -> None:
    """Print the details of each package, as pip does, and its variant."""
    for name in report.missing:
        output.warn(f"{name} is not installed")
    for number, package in enumerate(report.packages):
        if number:
            output.result("---")
        for key, value in _lines(package):
            output.result(key if key.startswith(" ") else f"{key}: {value}".rstrip())


def _lines(package: PackageDetails) -> Iterator[tuple[str, str]]:
    entry = package.installed
    yield "Name", entry.name
    yield "Version", str(entry.version)
    yield "Summary", package.summary
    yield "Home-page", package.home_page
    yield "License", package.license
    yield "Location", str(entry.location)
    if (project := project_folder(entry)) is not None:
        yield "Editable project location", project
    yield "Installer", entry.installer
    yield "Requested", "yes" if entry.requested else "no"
    yield "Requires", ", ".join(map(_requirement_text, package.requires))
    yield "Required-by", ", ".join(package.name for package in package.required_by)
    yield from () if package.variant is None else _variant_lines(package.variant)
    if package.files is not None:
        yield "Files", ""
        for name in package.files:
            yield f"  {name}", ""


def _requirement_text(required: InstalledRequirement) -> str:
    text = required.requirement.name
    if required.installed is None:
        return f"{text} (not installed)"
    return text if required.is_met else f"{text} ({required.requirement.specifier} is not met)"


def _variant_lines(variant: PackageVariant) -> Iterator[tuple[str, str]]:
    yield "Variant", variant.label
    yield "Variant-properties", ", ".join(variant.properties)
    yield "Variant-condition", variant.condition
    choice = variant.choice
    if choice is not None:
        yield "Variant-wheel", choice.filename
        host_and_overrides = choice.host_and_overrides
        chosen_for = "this machine" if host_and_overrides.host is None else host_and_overrides.host
        yield "Variant-chosen-for", ", ".join((chosen_for, *host_and_overrides.overrides))
    fits = {True: "yes", False: "no", None: "unknown"}[variant.fits]
    yield "Variant-fits", f"{fits}: {variant.reason}" if variant.reason else fits


def show_why(report: WhyReport, output: Output) -> None:
    """Print the chains that lead to a package, from the requested ones."""
    output.result(f"{report.name} {report.version}")
    for chain in report.chains:
        output.result(f"  {_chain(chain)}")
    if not report.chains:
        output.result("  not required by any package, and not requested")
    if report.has_more:
        output.remark("note: there are further chains, longer than these")


def _chain(chain: tuple[RequirementLink, ...]) -> str:
    first, *rest = chain
    if not rest:
        return "requested"
    # A link's extra belongs to the package before it: a package shows the extra of the next link.
    extras = [link.extra for link in rest] + [None]
    parts = [f"{first.name}{'' if extras[0] is None else f'[{extras[0]}]'} {first.version}"]
    for link, extra in zip(rest, extras[1:], strict=True):
        text = link.requirement or link.name
        is_shown = extra is None or f"[{extra}" in text
        parts.append(text if is_shown else f"{text} with [{extra}]")
    return " -> ".join(parts)
