"""Finds the release or commit since which a case is broken or fixed."""
