"""One module per command; ``wheelfit.cli.main`` imports only the chosen one."""
