"""Sums of many numbers, as fast as the processor can."""

from wheelfit_runtime import load

load("sums", into=__name__)
