"""Reports of operations, as text for people; for programs a report has ``to_json`` itself."""
