"""Installs GCC of exactly a version from a conda channel: the site's, else conda-forge. Arguments: version, folder."""

import asyncio
import sys
from pathlib import Path

from rattler import install, solve
from rattler.match_spec import MatchSpec
from rattler.virtual_package import VirtualPackage

PUBLIC = "https://conda.anaconda.org/conda-forge"
SITE = Path("/run/secrets/conda_channel")
PACKAGES = ("gcc_impl_linux-64", "gxx_impl_linux-64")


async def main(version, target):
    channel = SITE.read_text().strip() if SITE.exists() else ""
    records = await solve(
        sources=[channel or PUBLIC],
        specs=[MatchSpec(f"{name} =={version}") for name in PACKAGES],
        platforms=["linux-64", "noarch"],
        virtual_packages=VirtualPackage.detect(),
    )
    await install(records=records, target_prefix=target, show_progress=False)
    for record in sorted(records, key=lambda record: record.name.normalized):
        print(record.name.normalized, record.version, record.build)


try:
    asyncio.run(main(*sys.argv[1:]))
except Exception as error:
    sys.exit(
        f"{type(error).__name__}: {error}\nerror: GCC {sys.argv[1]} cannot be had from conda-forge (why: see above); "
        "conda_channel and gcc_providers of reprokit's configuration say where from"
    )
