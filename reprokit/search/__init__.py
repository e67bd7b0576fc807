"""Searches over cells: which difference matters, since which version, what can be left out.

The algorithms are generators that ask for cells and are sent what these showed (:mod:`reprokit.search.asking`);
:mod:`reprokit.search.session` runs the cells, records them as a run and resumes it. Never prints.
"""
