"""Diagnoses of a machine, an environment or a process, with remedies.

May import ``installation``, ``checking`` and below; uses no network.
"""
