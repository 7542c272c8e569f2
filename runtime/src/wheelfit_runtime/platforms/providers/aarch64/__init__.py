"""64-bit Arm processors: versions and single abilities."""
