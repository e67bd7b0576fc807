"""Tools for coding agents: each is a command of reprokit with limits on cells, time and text."""
