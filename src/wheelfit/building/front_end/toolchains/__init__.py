"""Settings of compilers and build systems for the properties of a variant, by language (B-26)."""
