"""x86-64 processors: levels and CPU features."""
