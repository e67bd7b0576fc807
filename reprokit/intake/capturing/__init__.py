"""From a command that fails on this machine to the draft of a case: what ran, where, with what, and how it ended."""
