"""Publishing a release: its files, their order, the checks, and the transfer.

May import the same as ``building``; it is independent of particular indexes, and of our servers.
"""
