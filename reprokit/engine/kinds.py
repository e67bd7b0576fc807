"""The kinds of engines that there are: the one place in which a new engine is named."""

from __future__ import annotations

AUTO = "auto"
"""What stands for the engine that answers, where an engine's kind is asked for."""

KINDS = ("docker", "podman", "venv")
"""Each is the name of a package beside this module, whose ``ENTRY`` says what the engine is.

The first is the reference: reports name the engine of a verdict only where it is another one.
"""

CHOICES = (AUTO, *KINDS)
"""What ``--engine`` and the configuration take."""
