"""What a machine supports, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.render.detections import show_detections, warn_of_detection

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.operations.machine_records import Record
    from wheelfit.operations.probe import ProbeReport


def show_probe(report: ProbeReport, output: Output) -> None:
    """Print what a machine supports."""
    output.result_json(report.to_json())
    output.result(_headline(report.machine), "strong")
    show_detections(report.detections, output)
    if report.record is not None:
        _show_record(report.record, output)


def show_host_file(report: ProbeReport, output: Output) -> None:
    """Print the host file of a machine."""
    for detection in report.detections:
        warn_of_detection(detection, output)
    output.result(report.host_file().rstrip("\n"))
    if report.record is not None:
        _show_record(report.record, output)


def _headline(machine: ChosenMachine) -> str:
    if machine.words:
        return f"{machine.name}: {machine.words}"
    values = machine.target.environment
    return (
        f"{machine.name}: {values['implementation_name']} {machine.target.python_full_version}"
        f" on {values['platform_system']} {values['platform_machine']}"
    )


def _show_record(record: Record, output: Output) -> None:
    if record.is_new:
        output.say(
            f"recorded this machine in {record.folder}; look through it before you send it, "
            f"and look at what it says: wheelfit probe --replay {record.folder}"
        )
    for namespace in record.differs:
        when = "as replayed" if record.is_new else "now as when it was recorded"
        output.warn(f"{namespace}: detection does not say the same {when}")
