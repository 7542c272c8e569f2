"""Reports of operations, as text for people or JSON for programs."""
