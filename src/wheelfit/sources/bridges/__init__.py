"""Families of distributions presented as variants: a repository around others, the shipped data.

May import ``core``, ``wheels`` and the seams of ``sources``.
"""
