"""cli/display."""
