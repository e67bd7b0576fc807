"""Verdicts over time: what changed, when, between which two records, and what old logs say by today's rules."""
