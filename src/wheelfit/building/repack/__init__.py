"""Edit what finished wheels say of themselves: name, version and dependencies, and their variant.

May import what ``building`` may.
"""
