"""Check one wheel by itself."""
