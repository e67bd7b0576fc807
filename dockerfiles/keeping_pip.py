"""pip that keeps downloads in its cache even when an index does not say how long they are good for.

PyPI says so, but many mirrors and proxies drop those headers, and pip then fetches the same wheel for every image.
A distribution file never changes under its address. Runs with any pip from 20 on; where pip looks different inside,
it is pip as it is.
"""

import contextlib
import runpy
import sys
from email.utils import formatdate

sys.path.pop(0)  # this script's folder is no place to import from
sys.argv[0] = "pip"

YEAR = "max-age=31536000"
ARCHIVES = (".whl", ".tar.gz", ".tar.bz2", ".zip")
SAID = ("cache-control", "expires", "etag", "pragma")


def keep_archives():
    from pip._vendor.cachecontrol.adapter import CacheControlAdapter

    plain = CacheControlAdapter.build_response

    def build_response(self, request, response, from_cache=False, *rest, **more):
        archive = request.url.partition("#")[0].partition("?")[0].endswith(ARCHIVES)
        if archive and not from_cache and response.status == 200 and not any(name in response.headers for name in SAID):
            response.headers["cache-control"] = YEAR
            if "date" not in response.headers:
                response.headers["date"] = formatdate(usegmt=True)
        return plain(self, request, response, from_cache, *rest, **more)

    CacheControlAdapter.build_response = build_response


def know_pypi():
    """pip 9, which Ubuntu 18.04 brings, asks pypi.python.org: an address that many sites no longer let through."""
    from pip import cmdoptions

    cmdoptions.index_url.keywords["default"] = "https://pypi.org/simple"


for change in (keep_archives, know_pypi):
    with contextlib.suppress(ImportError, AttributeError):
        change()
runpy.run_module("pip", run_name="__main__", alter_sys=True)
