"""Checks of a user's targets: files and folders, projects and URLs."""
