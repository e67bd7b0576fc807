"""The debuggers gdb and py-spy over a finished image: a layer of their own, so that no cell's image changes. Pure."""

from __future__ import annotations

from reprokit.environment import dockerfile

PREFIX = f"{dockerfile.TAG_PREFIX}debug-"
CAPABILITY = "SYS_PTRACE"
"""What a container needs to have: the debuggers do not start without (they have a file capability of that name)."""


def rendered(image: str, *, privileged: bool) -> dockerfile.Rendered:
    """What builds ``image`` (a name that the engine has) with gdb and, where it has a Python, py-spy.

    ``privileged``: their files have the capability, without which a container that lacks it starts them all the same.

    An image without apt-get, dnf and yum fails to build, and its last line says so.
    """
    return dockerfile.render_one("debugging.j2", {}, image=image, privileged=privileged)


def tag(layer: dockerfile.Rendered, image_id: str) -> str:
    """The name of what :func:`rendered` gives for the image of that id: the same for the same content."""
    return PREFIX + layer.tag(image_id).rpartition(":")[2]
