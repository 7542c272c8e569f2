"""Projects as sources: archives and repositories, what they say of themselves, their backends.

May import ``sources`` and the floors below. Nothing here runs code of a project but `backend`, and
that runs it in an environment that somebody else has made.
"""
