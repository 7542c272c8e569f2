"""Checks of a single variant document: its form, and the consistency of its content."""
