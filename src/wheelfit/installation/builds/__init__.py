"""Build wheels from source: open a project, make an environment, run the backend, store the wheel.

`building.Building` is what the rest of the house sees: a repository with wheels yet to be built.
"""
