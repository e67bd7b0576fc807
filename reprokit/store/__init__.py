"""Runs on disk and in the database: records in, records out, and merging of stores.

Takes and gives the records of :mod:`reprokit.evidence`. Importing this imports no database. Never judges a log.
"""
