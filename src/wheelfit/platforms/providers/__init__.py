"""What follows from the facts: one provider per namespace, each also a PEP 850 plugin."""
