"""A run or a case as Markdown: its sections, which fit a limit, and the tables of its verdicts."""
