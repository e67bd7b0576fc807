"""From a bug report, or from a command that fails here and now, to a draft of a case.

Takes text, or looks at this machine; gives a draft with the origin of each value. Never invents what was not read or
seen, and keeps secrets and personal data out.
"""
