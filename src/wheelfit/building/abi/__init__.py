"""The versions of a library with which a binary that was built for it works.

May import the layers below ``building``.
"""
