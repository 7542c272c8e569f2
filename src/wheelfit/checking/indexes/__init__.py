"""Check everything that an index has."""
