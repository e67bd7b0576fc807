"""Searches over cells: which difference matters, since which version, what can be left out.

The algorithms are generators that yield the cells to run and are sent their results (:mod:`reprokit.search.queries`);
:mod:`reprokit.search.search_session` runs the cells, records them as a run and resumes it. Never prints.
"""
