# Written for the interpreters of images, old ones included: the rules for our own code do not hold here.
# ruff: noqa
# mypy: ignore-errors
"""The package pip of environment.setup, where environment.pip_before limits it: the real one, held to the limit.

It lies in a folder of PYTHONPATH as pip/__init__.py, so that it comes first whether a script of the case calls pip,
python -m pip, or a program that does. Runs with Python 2.7, and 3.5 and later.
"""

import os
import sys

_ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_real = [
    os.path.join(_place, "pip")
    for _place in sys.path
    if os.path.abspath(_place) != _ours and os.path.isfile(os.path.join(_place, "pip", "__init__.py"))
]
if not _real:
    raise ImportError("No module named pip")
__path__ = _real[:1]
__file__ = os.path.join(_real[0], "__init__.py")
with open(__file__) as _stream:
    exec(compile(_stream.read(), __file__, "exec"))

if "reprokit_pip_before" not in sys.modules:
    sys.path.insert(0, os.environ["REPROKIT_PIP_BEFORE_FOLDER"])
    _writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is written into that folder
    try:
        import pip_before
    finally:
        sys.path.pop(0)
        sys.dont_write_bytecode = _writes
    sys.modules["reprokit_pip_before"] = pip_before
    pip_before.limit_pip()
