"""Other indexes behind a server: mirrors of them, and several indexes as one.

May import ``server.store`` for the bytes of files, and the floors below the servers.
"""
