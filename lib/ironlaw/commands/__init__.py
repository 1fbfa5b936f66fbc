"""The commands of `ironlaw`, one module each, with `add_flags(parser)` and `run(args) -> int`."""
