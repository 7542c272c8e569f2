"""Speak to people: one file per command, rendering, exit codes.

The top floor; may import everything but ``testing``.
"""
