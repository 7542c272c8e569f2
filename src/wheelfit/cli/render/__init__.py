"""Reports of operations, as text for people; for programs a report has ``to_json`` itself.

The row of a command in `wheelfit.cli.commands` names the function that shows its report.
"""
