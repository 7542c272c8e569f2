"""Where files are found: indexes, directories, caches, transports, credentials.

May import ``wheels``, ``core`` and below.
"""
