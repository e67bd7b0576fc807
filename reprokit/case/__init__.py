"""The case format: models, loading with exact positions, templates, JSON Schema.

What it must know of the axes is passed in; :mod:`reprokit.environment.cases` passes it.
"""
