"""Take uploads: read the form, find everything that is wrong, and let in what is right.

May import ``server.store``, ``checking`` and the floors below.
"""
