"""Searches for what makes a failure: which differences, which release, which commit, which part of a case."""
