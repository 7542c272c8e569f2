"""Publish a release: what goes, in which order, whether it may, and how it travels.

May import what ``building`` may; knows no index by name, and no server of ours.
"""
