"""From a cell to the environment that it asks for, to the Dockerfile that makes it, and to what was measured in it.

Takes cells and the host's capabilities as plain data, gives environments, Dockerfiles with their contexts, and
differences between asked and measured. The same input gives the same bytes. Never talks to an engine.
"""
