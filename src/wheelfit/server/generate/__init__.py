"""A static index of a folder of wheels: what is known of them, its pages, and where it goes.

May use what stands below ``server``, and of ``server`` pages, storages and the rules of uploads.
"""
