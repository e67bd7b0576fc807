"""Runs the cells of a plan on the nodes of a Ray cluster.

Takes the tasks of a run, and gives their records and logs to the one process that writes the store. Each cell is a Ray
task, which runs the :class:`~reprokit.run.runner.Runner` of its node with that node's engine and settings. Never
schedules across hosts by itself: it tells Ray what a cell needs and which nodes can serve it.
"""
