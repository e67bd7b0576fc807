"""Shows runs and searches: a live table on a terminal, plain lines elsewhere."""
