"""Exports: the packages one machine gets from a lock, in formats of other tools.

May import what ``locking`` may.
"""
