"""Radio buttons that combine presets into a machine.

There are only buttons for presets for which a release has different wheels.

The preset of an accelerator, as ``cuda-12.8-sm90``, is chosen in two parts: the device, and the
version of its driver or toolkit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit.server.site.machines import PYTHON_NAMES, VERSIONED, family_of
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

_EXAMPLES = pattern(r"\(([^()]*)\)")
SYSTEM, PROCESSOR, DEVICE, VERSION, PYTHON = "system", "processor", "device", "version", "python"
"""Fields of the form."""


class Button(NamedTuple):
    """A radio button."""

    value: str
    """Empty: not chosen."""
    text: str
    example: str = ""
    """Names of devices."""


class ButtonGroup(NamedTuple):
    """Radio buttons of which one is chosen."""

    field: str
    title: str
    buttons: tuple[Button, ...]


def button_groups(machines: Mapping[str, str]) -> tuple[ButtonGroup, ...]:
    """Return the buttons for a release.

    :param machines: names and descriptions of the presets that differ for it.
    """
    buttons: dict[str, dict[str, Button]] = {SYSTEM: {}, PROCESSOR: {}, DEVICE: {}, VERSION: {}}
    for name, description in machines.items():
        family = family_of(name)
        if family is None:
            buttons[SYSTEM][name] = Button(name, name)
            continue
        example = _EXAMPLES.search(description)
        examples = "" if example is None else example[1]
        versioned = VERSIONED.match(name)
        if name.startswith("cpu-"):
            buttons[PROCESSOR][name] = Button(name, name.removeprefix("cpu-"), examples)
        elif versioned is None:
            buttons[DEVICE][name] = Button(name, name, examples)
        else:
            kind, version, device = versioned[1], versioned[2], name[versioned.end() :]
            label = (family.presets and family.presets.version_name) or kind
            buttons[VERSION][f"{kind}-{version}"] = Button(
                f"{kind}-{version}", f"{label} {version}"
            )
            buttons[DEVICE][f"{kind}-{device}"] = Button(f"{kind}-{device}", device, examples)
    titles = {
        SYSTEM: ("System", "not chosen"),
        PROCESSOR: ("Processor", "any"),
        DEVICE: ("GPU", "none"),
        VERSION: ("Driver or toolkit", "the newest"),
    }
    groups = [
        ButtonGroup(field, title, (Button("", empty_label), *buttons[field].values()))
        for field, (title, empty_label) in titles.items()
        if buttons[field]
    ]
    pythons = (Button(name, name) for name in PYTHON_NAMES)
    return (*groups, ButtonGroup(PYTHON, "Python", (Button("", "the newest"), *pythons)))


def picked_preset(query: Mapping[str, str], machines: Mapping[str, str]) -> str:
    """Return the name of the preset that the form selects; empty: none.

    :param machines: as for `button_groups`.
    """
    device, version = query.get(DEVICE, ""), query.get(VERSION, "")
    kind, _, name = device.partition("-")
    if device and device not in machines:  # the preset has a version between kind and name
        matches = [
            match
            for machine in machines
            if (match := VERSIONED.match(machine)) and match[1] == kind
        ]
        if version.partition("-")[0] != kind:  # none was chosen for it: the newest
            version = f"{kind}-{matches[-1][2]}" if matches else kind
        device = f"{version}-{name}"
    # A version without a device is a preset, too.
    parts = (query.get(SYSTEM, ""), query.get(PROCESSOR, ""), device or version)
    return "+".join(filter(None, parts))
