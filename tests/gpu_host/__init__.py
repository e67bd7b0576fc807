"""``python -m tests.gpu_host FOLDER run CASE ...``: the command line on a host whose containers are processes.

For faults that need a GPU and several runs: discovery (through the fake NVML of ``tests/fake_nvml``), leases, order and
records are the real ones. A container is a process in a session of its own, so it outlives a run that is killed, as
real ones do; it holds a witness lock on each of its GPUs and writes down when it finds another container on one.
"""
