"""reprokit: reproducible bug repros on containers, from a YAML case to a recorded verdict."""

__version__ = "0.1.0"
