"""Projects as sources: archives and repositories, their static metadata, their backends.

May import ``sources`` and the floors below. Nothing here runs code of a project but `backend`, and
that runs it in an environment made by its caller.
"""
