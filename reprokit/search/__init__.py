"""Searches over cells: which difference matters, since which version, what can be left out.

:mod:`reprokit.search.asking` is the pure side, generators that ask for cells and are told what these show;
:mod:`reprokit.search.session` serves them with containers, records them as a run and resumes them.
"""
