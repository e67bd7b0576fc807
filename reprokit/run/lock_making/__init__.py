"""Makes locks from images that were built, and says which locks no longer hold."""
