"""Put wheels into an environment: look at it, plan (pure), apply.

May import ``resolve`` and below; never meets ``server`` or ``build``.
"""
