"""The counterpart of ``pytest.raises`` for codes of errors."""

from __future__ import annotations

from typing import Any

import pytest

from wheelfit_runtime.error_codes import Code
from wheelfit_runtime.errors import WheelfitError


def raises_code(code: Code, *, match: str | None = None) -> pytest.RaisesExc[Any]:
    """Return the context in which an error with a code must be raised.

    :param code: the code; it decides the exit code and so the kind of the error.
    :param match: a regular expression that its message and place match.
    """
    return pytest.raises(WheelfitError, match=match, check=lambda error: error.reference == code)
