"""Options of the commands that look for faults."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import ANY_TEXTS, FILE, FLAG, PROCESS_ID, ListOf, OneOf

COUNTING = (
    Option(
        "--profile",
        ListOf(OneOf("uv", "pypi", "conda-forge", "internal")),
        "add rules: of uv 0.13.8, the public registry, conda-forge, or your own organisation",
    ),
    Option("--strict", FLAG, "treat warnings as errors"),
    Option("--ignore CODE", ANY_TEXTS, "leave out the findings of a check"),
)
"""Options that select findings."""

REPORTING = OptionGroup(
    "",
    *COUNTING,
    Option("--sarif", FLAG, "write the report as SARIF 2.1.0, for code review"),
    Option("-o, --output FILE", FILE, "write the report to a file too, in the chosen format"),
)

CHECK = OptionGroup(
    "",
    Option(
        "[TARGET ...]",
        FILE,
        "a wheel, an index file, a folder, a URL, or a project of an index (project:name==version)",
        stored_as="targets",
    ),
    Option("--full", FLAG, "compare all content with RECORD and with the hashes on pages"),
    Option(
        "--binaries",
        FLAG,
        "compare the claims of local wheels with the binaries in them "
        "(the stable ABI needs the extra `build`)",
    ),
    Option(
        "--instructions",
        FLAG,
        "as --binaries, and find code that needs a newer x86-64 processor than the wheel "
        "claims, as with -march=native",
    ),
)

DOCTOR = OptionGroup(
    "",
    Option(
        "--runtime PID", PROCESS_ID, "look at the libraries a process has loaded; self: this one"
    ),
    Option("--full", FLAG, "compare the content of all installed files too"),
    Option("--strict", FLAG, "treat warnings as errors"),
    Option("--ignore CODE", ANY_TEXTS, "leave out the findings of a kind"),
    Option("--repair", FLAG, "install missing dependencies of wheelfit itself, with pip or uv"),
)
