"""From a bug report, or from a command that fails on this machine, to a draft of a case; and from a case to an issue.

Takes text, or measures this machine; gives a draft with the origin of each value. :mod:`.sharing` takes a case with its
last run; gives the Markdown of an issue. :mod:`.importing` takes a data set of bugs; gives a case for each. Never
invents what was not read or measured, and keeps secrets and personal data out.
"""
