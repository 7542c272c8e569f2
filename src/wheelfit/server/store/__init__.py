"""Keep projects and files: what is known of them in a database, their bytes beside it.

May import ``server.index`` and the floors below; knows neither uploads nor HTTP.
"""
