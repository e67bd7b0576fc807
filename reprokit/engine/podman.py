"""Podman behind :class:`reprokit.engine.protocol.Engine`, spoken to through its Docker-compatible API."""

from __future__ import annotations

from reprokit.engine.docker import DockerEngine


class PodmanEngine(DockerEngine):
    """Podman's service: containers as Docker's, images built by buildah."""

    name = "Podman Engine"
    is_podman = True
