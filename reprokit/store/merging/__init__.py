"""Stores of several jobs as one: the jobs of one workflow run become one run, with each cell once."""
