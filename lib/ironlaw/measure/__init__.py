"""Instruments: they run something on the device at hand and report what happened.

Nothing here reads a prediction (`ironlaw.predict` is a sibling, never imported), so
that a prediction and a measurement that agree have agreed for a reason. Every
instrument returns a dataclass of `ironlaw.results`; what could not be had is None
there, with the reason beside it.
"""
