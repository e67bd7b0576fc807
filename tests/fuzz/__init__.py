"""Coverage-guided fuzzing of everything that reads untrusted text: ``make fuzz``; see CONTRIBUTING.md."""
