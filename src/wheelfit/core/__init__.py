"""The specification as plain values and functions.

Pure: no machine, no clock, no network. Needs ``packaging`` and, of ours, only
``errors`` and the value types of ``platforms.features``.
"""
