"""A hosted index: permissions, routes, and its operation.

Brings together ``server.store``, ``server.uploads`` and ``server.simple``.
"""
