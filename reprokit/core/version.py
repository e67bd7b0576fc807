"""The version of reprokit, and its name on Python's index: what every room may ask, while the package itself offers the
API above them.
"""

__version__ = "0.1.0"

DISTRIBUTION = "reprokit-harness"
"""What is installed. The distribution ``reprokit`` on https://pypi.org is another author's project."""


def install_line(extra: str) -> str:
    """The command that installs reprokit with one of its extras."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
