"""Which of NVIDIA's GPUs a CUDA major has no code for, told by nothing but PCI device ids (P-95).

Who asks the driver for capabilities initialises it; an id is in a file.
"""

# A later start of a program comes here: nothing is imported that it could do without.
from __future__ import annotations

DATA_VERSION = "2026-08"
"""Snapshot of the PCI ID Project's list with which the table was last compared."""

FIRST_DEVICE = {12: 0x1340, 13: 0x1E00}
"""By CUDA major: all GPUs with a lower id are below the capability that it compiles for.

Within generations, and between some, ids are mixed: Fermi's with Kepler's, Maxwell's with Pascal's.
But Fermi and Kepler (up to 3.7) are all below 0x1340, where Maxwell (5.0) begins; Maxwell, Pascal
and Volta (up to 7.0) are all below 0x1e00, where Turing (7.5) begins; and nothing newer is below.
CUDA 11 begins in the midst of Kepler, so there ids tell nothing.
"""
