"""Check one variant document: its form, and whether it makes sense."""
