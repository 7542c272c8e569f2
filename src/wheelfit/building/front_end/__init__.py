"""Builds of a project's wheels: their selection, the backend's settings, and their checks.

May import ``checking`` and the layers below. Where a backend runs comes in as an argument; the
scripts in ``isolated`` run there, and import nothing of ours.
"""
