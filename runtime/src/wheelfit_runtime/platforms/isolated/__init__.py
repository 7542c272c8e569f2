"""Scripts that run alone, in a process of their own; they import nothing of ours."""
