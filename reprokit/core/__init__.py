"""Errors, text, files, locks, addresses, redaction and ownership labels: what every room uses.

Takes and gives plain values. Knows nothing of cases, engines or reports.
"""
