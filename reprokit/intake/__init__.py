"""From a bug report, or from a command that fails on this machine, to a draft of a case.

Takes text, or measures this machine; gives a draft with the origin of each value. Never invents what was not read or
measured, and keeps secrets and personal data out.
"""
