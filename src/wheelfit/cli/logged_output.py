"""The output of a server whose log is JSON: one object a line, on both streams."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from wheelfit.cli.output import Output, Style, deliver
from wheelfit.server.hosting.logs import choose_log_format, json_line, traceback_of

if TYPE_CHECKING:
    from wheelfit_runtime.errors import WheelfitError


def logged_as(output: Output, log_format: str) -> Output:
    """Return an output whose remarks and errors are written like the log of a server.

    :param output: the output whose other settings are kept.
    :param log_format: ``json``, which makes the result JSON as well, ``plain`` or ``auto``.
    """
    is_json = choose_log_format(log_format, sys.stderr) == "json"
    kind = LoggedOutput if is_json else Output
    return kind(**{**vars(output), "json": output.json or log_format == "json"})


class LoggedOutput(Output):
    """An output that writes remarks and errors as events of a JSON log."""

    def result_json(self, value: object) -> None:
        """Print the result as one line of JSON; only under ``--json``."""
        if self.json and sys.stdout is not None:
            import json

            deliver(sys.stdout, json.dumps(value) + "\n")

    def remark(self, text: str, style: Style = "plain") -> None:
        """Log a remark, unless ``--quiet``."""
        del style
        if self.verbosity >= 0:
            self._event("note", message=text)

    def warn(self, text: str) -> None:
        """Log a warning, unless ``--quiet``."""
        if self.verbosity >= 0:
            self._event("warning", message=text)

    def error(self, error: WheelfitError) -> None:
        """Log an error, and print it as the result under ``--json``."""
        parts = self.parts_of(error)
        self._event("error", **{name: part for name, part in parts.items() if part})
        if self.json:
            with suppress(OSError):
                self.result_json({"error": parts})

    def traceback(self, error: BaseException) -> None:
        """Log a traceback."""
        self._event("traceback", message=traceback_of(error))

    def _print_remark(self, text: str, style: Style = "plain", hang: int = 2) -> None:
        del style, hang
        self._event("note", message=text)

    def _event(self, event: str, **facts: Any) -> None:
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write(json_line(datetime.now(UTC), event, facts) + "\n")
