"""What the binaries in a wheel are made for: machines, GPUs, libraries, systems.

May import ``core`` and below.
"""
