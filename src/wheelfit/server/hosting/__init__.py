"""Host an index: who may change it, what is answered where, and what operators see of it.

Brings together ``server.store``, ``server.uploads`` and ``server.simple``.
"""
