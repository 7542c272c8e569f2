"""Open and rewrite wheel archives, local or remote.

May import ``core`` and below.
"""
