"""reprokit, its Python, its configuration, and the programs that it needs with every engine."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator

from reprokit.cli.doctor.finding import Finding, Voice, install
from reprokit.cli.doctor.ground import Ground
from reprokit.core.errors import UsageError
from reprokit.core.version import __version__
from reprokit.engine.site import config
from reprokit.environment import tables

say = Voice("reprokit")


def check(ground: Ground) -> Iterator[Finding]:
    """Version, configuration, misspelt variables, git."""
    yield say.ok(f"reprokit {__version__}, Python {platform.python_version()} ({sys.executable})")
    if ground.misconfigured:
        yield say.fail(
            f"the configuration cannot be read: {ground.misconfigured}",
            "fix the line that it names; the other checks use the defaults until then",
        )
    else:
        files = config.config_files(ground.environ, ground.folder)
        names = ", ".join(map(str, files)) if files else "no reprokit.toml, defaults are used"
        yield say.ok(f"configuration: {names}")
    try:
        for name in tables.SHAPES:
            tables.table(name, ground.settings.compatibility)
    except UsageError as error:
        yield say.fail(f"the site's compatibility data cannot be read: {error}", "fix that line")
    for name, sentence in config.unknown_variables(ground.environ):
        yield say.warn(sentence, f"unset {name}")
    if shutil.which("git", path=ground.environ.get("PATH")) is None:
        yield say.warn("git was not found: cases with sources cannot be run", install("git"))
