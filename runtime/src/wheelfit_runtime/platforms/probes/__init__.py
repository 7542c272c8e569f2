"""Where facts come from: each probe has a ``read`` that touches the machine, and a ``parse``."""
