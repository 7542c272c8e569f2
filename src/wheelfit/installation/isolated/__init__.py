"""Scripts that run under another interpreter.

They import only the standard library and the ``packaging`` whose path they get, and must run on
every Python that wheelfit installs for, which may be older than its own.
"""
