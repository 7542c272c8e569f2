"""Scripts that run in a process of their own; they import nothing outside of this folder."""
