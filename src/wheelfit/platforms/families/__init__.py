"""Families of hardware: one folder for each, with all that is known of it."""
