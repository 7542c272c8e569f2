"""Which versions of a library a binary that was built for it works with.

May import the layers below ``building``.
"""
