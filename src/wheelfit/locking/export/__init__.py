"""Exports: what one machine gets from a lock, in the forms that other tools read.

May import what ``locking`` may.
"""
