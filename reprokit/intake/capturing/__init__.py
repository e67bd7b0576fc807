"""A command that fails here and now -> the draft of a case: what ran, where, with what, and how it ended."""
