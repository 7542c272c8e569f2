"""Bring libraries of a vendor to this process: found, checked, kept once per user, loaded."""
