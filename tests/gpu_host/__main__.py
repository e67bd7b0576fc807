"""The command line with the engine of :mod:`tests.gpu_host`."""

from __future__ import annotations

import sys
from pathlib import Path

from reprokit.cli import main
from reprokit.run import invocation
from tests.gpu_host.engine import ProcessEngine

folder = Path(sys.argv.pop(1))
invocation._engine = lambda name: ProcessEngine(folder)
main()
