"""Find, verify, store and load vendors' libraries for this process."""
