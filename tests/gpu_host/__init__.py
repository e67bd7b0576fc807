"""``python -m tests.gpu_host FOLDER run CASE ...``: the command line on a host whose containers are processes.

A container outlives a run that is killed, and holds a witness lock on each of its GPUs.
"""
