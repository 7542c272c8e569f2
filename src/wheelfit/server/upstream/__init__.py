"""Other indexes behind a server: mirrors of them, and several indexes as one.

May import ``server.store`` for the bytes of files, and the layers below the servers.
"""
