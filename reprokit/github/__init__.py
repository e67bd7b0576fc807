"""The steps of the workflows on GitHub: job matrices, comments, issues of a night, cases from issues.

Takes events and records, gives what a workflow needs next. Never runs a stranger's case that no maintainer approved.
"""
