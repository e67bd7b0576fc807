"""``reprokit reduce``: the smallest case that still fails in the same way.

From the pure to the world: :mod:`.shell`, :mod:`.parts` and :mod:`.contents` say what can be left out; :mod:`.edit`
leaves it out of the case's text; :mod:`.signature` makes the signature strict; :mod:`.algorithm` chooses what to try;
:mod:`.candidates` makes what can be run of it; :mod:`.reducing` is the search over one case; :mod:`.words` tells of it.
"""
