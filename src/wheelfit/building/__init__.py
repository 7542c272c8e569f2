"""Make variant wheels and the index file that describes them.

May import ``resolution`` and below; never meets ``server`` or ``installation``.
"""
