"""Speak to people: one file per command, rendering, exit codes.

The top floor. It works through ``operations``, and imports what is below them in a few modules
only, which ``tests/cli/test_imports.py`` names.
"""
