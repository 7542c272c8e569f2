"""Check what a user names: files and folders, projects and URLs."""
