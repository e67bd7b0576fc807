"""pip, with four habits that suit a build step.

- It gives up on a host for good once all attempts to connect to it have failed. pip on its own tries again, with all
  pauses, for every requirement, which makes an extra index that this site cannot reach cost minutes.
- It knows PyPI by its present name. pip 9, which Ubuntu 18.04 brings, has an older one that many sites do not let
  through: the same without "python" in the middle.
- It goes on where one of several indexes does not have a package. pip 8 as Ubuntu 16.04 packages it ends there.
- It reads the indexes that REPROKIT_PLACES names through the gateway, which serves the files that they link to, too: a
  step of an untrusted case reaches no other host.

Runs with any pip from 20 on, and with pip 8 and 9 as far as to replace itself; Python 2.7, and 3.5 and later. Where pip
looks different inside, it is pip as it is.
"""

import os
import runpy
import sys

try:
    from urllib.parse import urlsplit
except ImportError:  # Python 2.7
    from urlparse import urlsplit

sys.path.pop(0)  # this script's folder is no place to import from
sys.argv[0] = "pip"


def give_up_on_hosts():
    from pip._vendor.requests.adapters import HTTPAdapter
    from pip._vendor.requests.exceptions import ConnectionError as Failed
    from pip._vendor.urllib3.exceptions import ConnectTimeoutError, MaxRetryError, ProxyError

    plain = HTTPAdapter.send
    lost = {}  # (scheme, host, port) -> how the last attempt to connect to it failed

    def send(self, request, *rest, **more):
        address = urlsplit(request.url)
        host = (address.scheme, address.hostname, address.port)
        if host in lost:
            kind, last = lost[host]
            raise kind(MaxRetryError(last.pool, request.path_url, last.reason), request=request)
        try:
            return plain(self, request, *rest, **more)
        except Failed as error:
            last = error.args[0] if error.args else None
            # An unknown name and a refused connection are kinds of ConnectTimeoutError. An answer that was bad, cut or
            # late is not: the next one may be good.
            if isinstance(last, MaxRetryError) and isinstance(last.reason, (ConnectTimeoutError, ProxyError)):
                lost[host] = type(error), last
            raise

    HTTPAdapter.send = send


def know_pypi():
    from pip import cmdoptions

    options = cmdoptions.index_url.keywords
    options["default"] = options["default"].replace(".python.", ".")


def go_on_without_page():
    from pip.index import HTMLPage

    plain = HTMLPage.get_page

    def get_page(*words, **more):
        try:
            return plain(*words, **more)
        except Exception as error:
            if type(error).__name__ != "HTTPError":
                raise
            return None

    HTMLPage.get_page = staticmethod(get_page)


def read_through_gateway():
    for place in os.environ.get("REPROKIT_PLACES", "").split():
        through = "http://127.0.0.1:17890/place/" + place.replace("://", "/", 1)
        for number, word in enumerate(sys.argv):
            before = word[: -len(place)]
            if word.endswith(place) and (
                before in ("", "-i", "-f") or (before.startswith("--") and before.endswith("="))
            ):
                sys.argv[number] = before + through


for habit in (read_through_gateway, give_up_on_hosts, know_pypi, go_on_without_page):
    try:  # noqa: SIM105 - Python 2.7 has no contextlib.suppress
        habit()
    except (ImportError, AttributeError):
        pass
runpy.run_module("pip", run_name="__main__", alter_sys=True)
