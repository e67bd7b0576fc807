"""What builds and runs: Docker, Podman and virtual environments behind one protocol; GPUs; the site's settings.

Takes Dockerfiles with contexts and trials, gives images, endings and output. A failure of the engine is an error and
never an ending. Knows nothing of cases' verdicts.
"""
