"""Install wheels into an environment: inspect it, plan the changes (pure functions), apply them.

May import ``resolution`` and below, never ``server`` or ``building``.
"""
