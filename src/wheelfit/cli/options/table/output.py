"""Options of every command: how it prints."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import FLAG, OneOf

OUTPUT = OptionGroup(
    "output",
    Option("--json", FLAG, "print one JSON object, errors included"),
    Option("-q, --quiet", FLAG, "print errors and results only"),
    Option("-v, --verbose", FLAG, "print details"),
    Option("--color", OneOf("auto", "always", "never"), "default: on a terminal", default="auto"),
    Option("--no-progress", FLAG, "draw no progress bars"),
    Option("--debug", FLAG, "show the traceback of an error"),
)
