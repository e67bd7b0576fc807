"""``reprokit reduce``: the smallest case that still fails in the same way.

From pure to effectful: :mod:`.shell`, :mod:`.parts` and :mod:`.contents` find what can be removed; :mod:`.edit` removes
it from the case's text; :mod:`.signature` makes the signature strict; :mod:`.algorithm` chooses what to try;
:mod:`.candidates` makes cases that can be run; :mod:`.reducing` is the search over one case; :mod:`.words` reports it.
"""
