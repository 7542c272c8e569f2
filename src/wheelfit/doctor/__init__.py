"""Find out what is wrong with a machine, an environment or a process, and what to do about it.

May import ``installation``, ``checking`` and below; reaches for no network.
"""
