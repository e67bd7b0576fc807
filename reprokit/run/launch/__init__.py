"""Runs the cells of a plan as jobs that a launcher starts elsewhere: a scheduler, another machine, a program.

A node runs one command, ``reprokit run --cells``, in a folder that holds all that the job is. What comes back is an
archive of its records, which counts once it is whole by its digest, and nothing else does: no exit status, no word of a
scheduler. This process alone writes the store.
"""
