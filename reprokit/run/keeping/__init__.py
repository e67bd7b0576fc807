"""Keeps what reprokit has on disk within a budget: what there is, what goes first, and who uses what at the moment."""
