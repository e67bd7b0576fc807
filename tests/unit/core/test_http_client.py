"""The HTTP client's limits, against a real server on this host."""

from __future__ import annotations

import gzip
import re
import socket
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from reprokit.core import addresses, http_client
from tests.unit.serving import Quiet


@pytest.fixture
def url() -> Iterator[str]:
    class Handler(Quiet):
        def do_GET(self) -> None:
            path = re.sub("^http://[^/]+", "", self.path)  # as a proxy is asked
            if path == "/round" or path.startswith("/to/"):
                self.answer(302, Location=path.removeprefix("/to/"), Content_Length="0")
                return
            self.send_response(200)
            self.send_header("Content-Type", "Text/Plain; charset=utf-8")
            if path == "/packed":
                self.send_header("Content-Encoding", "gzip")
                self.end_headers()
                self.wfile.write(gzip.compress(b"0" * 1_000_000))
                return
            self.end_headers()
            for _ in range(20):  # one byte at a time is not a silence
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.05)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def get(url: str, **limits: float) -> http_client.Response:
    return http_client.send("GET", url, headers={}, max_bytes=100_000, silence=5, **limits)


def test_a_packed_answer_is_not_unpacked(url: str) -> None:
    answer = get(f"{url}/packed")
    assert gzip.decompress(answer.data) == b"0" * 1_000_000
    assert answer.media_type == "text/plain"


def test_an_answer_that_trickles_in_is_given_up(url: str) -> None:
    with pytest.raises(http_client.NoAnswer, match="not answered in full after 0 s"):
        get(f"{url}/slow", seconds=0.2)


def test_redirects_that_go_round_are_given_up(url: str) -> None:
    with pytest.raises(http_client.NoAnswer, match="more than 10 redirects"):
        get(f"{url}/round")


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """``a.example`` is a public host, whose server is the one of the test; no other program knows the name."""
    networks = addresses.networks
    found = {"a.example": {"127.0.0.1": ""}}
    monkeypatch.setattr(addresses, "networks", lambda host, *more: found.get(host) or networks(host, *more))


HOSTS = [
    *("0.0.0.0", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "[::1]", "localhost", "10.0.0.1"),
    *("192.168.1.1", "172.16.0.1", "169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "100.64.0.1"),
]


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize("host", HOSTS)
def test_a_public_address_redirects_to_no_other_network_however_it_is_written(url: str, host: str) -> None:
    port = url.rpartition(":")[2]
    with pytest.raises(http_client.NoAnswer, match="redirects to another network"):
        get(f"http://a.example:{port}/to/http://{host}:{port}/slow")


@pytest.mark.usefixtures("public")
def test_a_name_is_looked_up_once_and_a_redirect_may_stay(url: str) -> None:
    port = url.rpartition(":")[2]
    assert get(f"http://a.example:{port}/to/http://a.example:{port}/packed").status == 200
    assert get(f"{url}/to/http://127.1:{port}/packed").status == 200


@pytest.mark.parametrize("host", [*HOSTS, "localhost.", "X.localhost"])
def test_a_proxy_looks_names_up_and_is_asked_for_no_address_of_another_network(
    url: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo

    def without_servers(name: str, port: int, *more: int, flags: int = 0, **others: int) -> list[object]:
        assert flags & socket.AI_NUMERICHOST or name in ("127.0.0.1", "::1", "localhost"), f"{name} was looked up"
        return list(look_up(name, port, *more, flags=flags, **others))

    monkeypatch.setattr(socket, "getaddrinfo", without_servers)
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.delenv("no_proxy", raising=False)
    assert get("http://a.example/to/http://b.example/packed").status == 200
    with pytest.raises(http_client.NoAnswer, match="redirects to another network"):
        get(f"http://a.example/to/http://{host}/slow")


@pytest.mark.parametrize(
    "address", ["http://[", "http://127.0.0.1:x/", "ftp://127.0.0.1/x", "http://a b/", "http:///x"]
)
def test_what_is_not_an_address_answers_nothing(address: str) -> None:
    with pytest.raises(http_client.NoAnswer):
        get(address)
