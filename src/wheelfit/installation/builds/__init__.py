"""Build wheels from source: open a project, make an environment, run the backend, store the wheel.

Other packages use `repository.BuildingRepository`: a repository with wheels yet to be built.
"""
