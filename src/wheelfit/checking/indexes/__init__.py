"""Checks of a whole index."""
