"""Locks: their files, which cells are held to one, and builds from a lock and from nothing else."""
