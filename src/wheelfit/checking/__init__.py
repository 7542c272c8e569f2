"""Find every fault of wheels, documents and releases; what publishers and indexes go by.

May import ``resolution`` and below.
"""
