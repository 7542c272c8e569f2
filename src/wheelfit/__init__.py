"""Install the build that fits the machine.

Nothing is imported here, so that ``import wheelfit`` and every command start at once.
"""

__version__ = "0.1.0"
