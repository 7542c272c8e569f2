"""Publishing a release: its files, their order, the checks, and the transfer.

May import what ``building`` may; it is independent of particular indexes, and of our servers.
"""
