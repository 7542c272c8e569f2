"""The options and settings of every command: one table, and the parsers made of it.

`table` has the rows, a module for each area; `arguments` makes parsers of them, and `settings`
finds those that files and variables may set.
"""
