"""The pages for people: what an index has, who gets what of it, and how to install it.

May import what reads forms, keeps bytes and writes static indexes beside it; no index imports it.
"""
