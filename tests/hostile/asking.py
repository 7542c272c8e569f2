"""Ask plugins and print the reports as JSON: ``asking.py PYTHON ENDPOINT[@SECONDS]...``."""

from __future__ import annotations

import dataclasses
import json
import os
import sys

from wheelfit_runtime.platforms.plugin_process import ask


def main() -> None:
    """Ask one after the other."""
    python, *questions = sys.argv[1:]
    environ = {**os.environ, "HOSTILE_PROVIDER_FORCE_TARGET": str(os.getpid())}
    for question in questions:
        endpoint, _, deadline = question.partition("@")
        report = ask(python, endpoint, environ=environ, deadline=float(deadline or 20))
        print(json.dumps(dataclasses.asdict(report)), flush=True)


if __name__ == "__main__":
    main()
