"""Lock files: ``pylock.toml`` with the variant documents of the releases in it.

May import ``resolution`` and below.
"""
