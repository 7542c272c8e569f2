"""Probes of a machine: each has a function ``read``, and a pure one ``parse``."""
