"""Options of the commands that serve installers."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import ANY_TEXT, FILE, FLAG, HOSTS, PORT, TEXT

PROXY = OptionGroup(
    "server",
    Option(
        "--host ADDRESS",
        TEXT,
        "listen at this address (default: 127.0.0.1, which only this machine reaches)",
        default="127.0.0.1",
        stored_as="listen_at",
    ),
    Option(
        "--port N", PORT, "listen at this port (default: 8941; 0: any that is free)", default=8941
    ),
    Option(
        "--allowed-host HOST",
        HOSTS,
        "answer only requests for this host name (default: any; at a loopback address, "
        "only names of this machine)",
    ),
    Option(
        "--deny-vulnerable PATH",
        FILE,
        "do not offer releases with known vulnerabilities, by a folder or zip of OSV records",
    ),
)

RUN = OptionGroup(
    "",
    Option("[COMMAND ...]", ANY_TEXT, "the command to run, after --"),
    Option(
        "--port N",
        PORT,
        "listen at this port, at a URL without a secret, for tools whose configuration names it "
        "(default: any free port, and a URL with a secret)",
    ),
)

PROXIED = OptionGroup(
    "proxy",
    Option(
        "--full",
        FLAG,
        "serve every project; by default only those with variants, so that installers get all "
        "others from their usual index",
    ),
    Option(
        "--all-variants",
        FLAG,
        "list every variant, whatever the machine: for locks and hashes of all machines",
    ),
    Option(
        "--uv-lock",
        FLAG,
        "answer uv lock, sync, add and run too, so that variants get into uv.lock",
    ),
    Option(
        "--allow-private-host HOST",
        HOSTS,
        "follow links to this host although its address is private",
    ),
)
