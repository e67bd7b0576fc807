"""A folder of cases as a library: what each case is about and needs, how to choose among them, and its catalogue."""
