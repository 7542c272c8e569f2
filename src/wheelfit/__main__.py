"""Run ``python -m wheelfit``."""

from __future__ import annotations

from wheelfit.cli.main import run

if __name__ == "__main__":
    run()
