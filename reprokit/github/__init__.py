"""What the project's workflows on GitHub are made of: the API, the event, workflow commands. Standard library only."""
