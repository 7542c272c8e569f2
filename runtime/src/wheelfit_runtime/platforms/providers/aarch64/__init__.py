"""64-bit Arm processors: versions and CPU features."""
