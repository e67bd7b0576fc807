"""Installs packages of a conda channel, the site's or else conda-forge, into a folder of the stage that runs this.

Arguments: the folder, and what to install, as conda writes it (``cudatoolkit ==10.1.243``).
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from rattler import install, solve
from rattler.match_spec import MatchSpec
from rattler.virtual_package import Override, VirtualPackage, VirtualPackageOverrides

PUBLIC = "https://conda.anaconda.org/conda-forge"
SITE = Path("/run/secrets/conda_channel")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--glibc", required=True, help="the version that the image will have; this stage may differ")
    parser.add_argument("--with", dest="beside", action="append", default=[], help="what a package has to be, if any")
    parser.add_argument("--only", default="", help="the package to install, without what it depends on")
    return parser.parse_args()


async def main(asked):
    channel = SITE.read_text().strip() if SITE.exists() else ""
    records = await solve(
        sources=[channel or PUBLIC],
        specs=[MatchSpec(text) for text in asked.packages],
        constraints=[MatchSpec(text) for text in asked.beside],
        platforms=["linux-64", "noarch"],
        virtual_packages=VirtualPackage.detect(VirtualPackageOverrides(libc=Override.string(asked.glibc))),
    )
    records = [record for record in records if asked.only in ("", record.name.normalized)]
    await install(records=records, target_prefix=asked.folder, show_progress=False)
    for record in sorted(records, key=lambda record: record.name.normalized):
        print(record.name.normalized, record.version, record.build)


def leave(status, words=""):
    """Ends without taking the interpreter down: threads of rattler that still run then abort it at times."""
    if words:
        print(words, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


asked = arguments()
try:
    asyncio.run(main(asked))
except Exception as error:
    leave(
        1,
        f"{type(error).__name__}: {error}\n"
        f"error: conda-forge does not serve {' and '.join(asked.packages)} (why: see above); conda_channel, "
        "python_providers and gcc_providers of reprokit's configuration say where from",
    )
leave(0)
