"""From a bug report, or from what is seen here and now, to the draft of a case."""
