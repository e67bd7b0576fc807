"""The version of reprokit: what every room may ask, while the package itself offers the API above them."""

__version__ = "0.1.0"
