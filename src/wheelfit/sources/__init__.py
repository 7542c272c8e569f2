"""The sources of files: indexes, directories, caches, transports, credentials.

May import ``wheels``, ``core`` and below.
"""
