"""Make variant wheels and the index file that describes them.

May import ``resolve`` and below; never meets ``server`` or ``install``.
"""
