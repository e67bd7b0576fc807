"""Which differences between a cell that fails and one that does not are the cause."""
