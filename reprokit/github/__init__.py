"""The steps of the workflows on GitHub: job matrices, comments, issues about nightly runs, cases from issues.

Takes events and records, gives what a workflow needs next. Never runs an untrusted case without a maintainer's label.
"""
