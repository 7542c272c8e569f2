"""Keep projects and files: what is known of them in a database, their bytes beside it.

May import ``server.storage``, ``server.backing_services``, of ``server.messages`` what a part of a
file is, and the floors below; knows neither uploads nor requests.
"""
