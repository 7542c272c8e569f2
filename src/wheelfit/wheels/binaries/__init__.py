"""The targets of the binaries in a wheel: machines, GPUs, libraries, systems.

May import ``core`` and below.
"""
