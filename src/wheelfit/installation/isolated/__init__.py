"""Scripts that run under a foreign interpreter, shipped as they are.

They need the standard library and the ``packaging`` that is handed to them, nothing of
ours; they must run on every Python this tool installs for, which is older than the one
it runs on itself.
"""
