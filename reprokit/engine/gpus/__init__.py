"""The NVIDIA GPUs of this host: what there is, which may be leased, who holds which, and how a container gets it."""
