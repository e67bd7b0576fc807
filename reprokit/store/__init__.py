"""The record of runs: the database, its migrations, the folder it lies in, and the process that writes it.

Importing this imports no database: most of reprokit needs the records alone.
"""
