"""Choose among installed implementations, and by tables of cases."""
