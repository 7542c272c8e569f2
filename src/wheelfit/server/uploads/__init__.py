"""Uploads: read the form, find all faults, and accept valid files.

May import ``server.store``, ``checking`` and the layers below.
"""
