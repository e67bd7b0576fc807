"""From a request to recorded verdicts: plan, images, trials, scheduling, locks, source trees, data sets, the probe.

Takes cases and a request, gives records. Never prints: what it has to say goes to a listener or a display.
"""
