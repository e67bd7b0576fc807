"""The case format: models, loading with exact positions, templates, axes -> cells, selection, filters, schema.

Takes text and gives valid cases and their cells, or every problem with its position. Never looks at the host, an
engine or a store; reads no file but the one that it is asked to load.

What it must know of the axes is passed in; :mod:`reprokit.environment.cases` passes it.
"""
