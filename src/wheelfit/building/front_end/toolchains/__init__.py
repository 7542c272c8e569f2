"""What compilers and build systems are told for the properties of a variant, by language (B-26)."""
