"""What an NVIDIA driver says and does: on the fake driver library and, where there is a GPU, on the real one."""
