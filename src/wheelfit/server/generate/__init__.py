"""A static index of a folder of wheels: its facts, its pages, and its target.

May import the layers below ``server``, and of ``server`` pages, storages and the rules of uploads.
"""
