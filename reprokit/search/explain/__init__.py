"""Which conditions on a case's axes separate the cells that reproduce from those that do not: words and rivals."""
