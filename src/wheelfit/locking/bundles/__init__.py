"""Bundles: folders that install with no network, made from a lock for some machines.

May import what ``locking`` may.
"""
