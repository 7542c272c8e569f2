"""The pages for people: the contents of an index, the choice for machines, and how to install.

May import form reading, storages and static indexes of ``server``; no index imports it.
"""
