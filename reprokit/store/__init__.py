"""The record of runs: the database, the plain records in it, the folder it lies in, and the thread that writes it.

Importing this imports no database: most of reprokit needs the records alone.
"""
