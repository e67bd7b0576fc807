"""Coverage-guided fuzzing of everything that reads a stranger's text: ``make fuzz``; see CONTRIBUTING.md."""
