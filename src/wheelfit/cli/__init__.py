"""The command line: one file per command, rendering, exit codes.

The top layer. It works through ``operations``, and imports lower layers in a few modules only,
which ``tests/cli/test_imports.py`` names.
"""
