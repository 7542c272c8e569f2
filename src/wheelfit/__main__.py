"""Run ``python -m wheelfit``."""

from __future__ import annotations

import sys

from wheelfit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
