"""ironlaw: predict, measure, explain and be checked on training systems.

Importing this package imports neither torch nor matplotlib; each module brings
what it needs.
"""

__version__ = "0.1.0"
