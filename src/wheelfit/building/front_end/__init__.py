"""Build the wheels of a project: which ones, told to its backend in its own words, and checked.

May import ``checking`` and the floors below. Where a backend runs comes in as an argument; the
scripts in ``isolated`` run there, and import nothing of ours.
"""
