"""x86-64 processors: levels and single abilities."""
