"""The options and settings of every command: one table, and all that is made of it.

`table` has the rows, a module for each area; the other modules read them: `arguments` makes
parsers, `settings` finds the rows that files and variables may set, and `completion` writes the
scripts of shells.
"""
