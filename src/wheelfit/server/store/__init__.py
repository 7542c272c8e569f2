"""The store of projects and files: records in a database, their bytes beside it.

May import ``server.storage``, ``server.backing_services``, from ``server.messages`` the parts of
files, and the layers below; it is independent of uploads and requests.
"""
