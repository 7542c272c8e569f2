"""Scripts that run in build environments, with the standard library and nothing of ours."""
