"""From a log to a verdict: observation, signature, fingerprint, statistics, and the records of cells and trials.

Takes logs and how processes ended, gives verdicts with their reasons. The same log gives the same verdict later, by the
same version of the rules. Never runs anything.
"""
