"""From a data set of bugs that others have collected to cases: the commit that fails, the fix that passes.

Takes a data set as files (:mod:`.kinds` has one module for each kind) and gives a draft for each of its bugs.
The data set is untrusted: names, paths, commits and patches are checked, texts are escaped for templates, and
nothing of it is executed. Never fetches anything: git and pip get what a case names when it is run.
"""
