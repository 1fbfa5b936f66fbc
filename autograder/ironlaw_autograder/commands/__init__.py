"""One module per command: `add_flags(parser)` and `run(args) -> exit status`."""
