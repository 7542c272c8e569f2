"""What is known about hardware, as data with a date: one module for each namespace.

Nothing here was found out on this machine and nothing here looks at one. Every table
names its rule; unknown always means the cautious answer. New hardware is a new line
here, and a new ``DATA_VERSION``.
"""
