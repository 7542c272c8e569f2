"""Put wheels into an environment: look at it, plan (pure), apply.

May import ``resolution`` and below; never meets ``server`` or ``building``.
"""
