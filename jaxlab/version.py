"""The version of the package, read by the packaging and by run records."""

__version__ = '0.1.0'
