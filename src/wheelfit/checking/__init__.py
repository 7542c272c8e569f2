"""Checks that find every fault of wheels, documents and releases, for publishers and indexes.

May import ``resolution`` and below.
"""
