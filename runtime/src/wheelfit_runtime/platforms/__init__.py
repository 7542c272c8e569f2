"""Detect the support of this machine: facts, probes, providers.

Uses the standard library only and imports nothing of ours but ``errors`` and what lies below it.
"""
