"""Since which release, or commit, a case is broken, or fixed."""
