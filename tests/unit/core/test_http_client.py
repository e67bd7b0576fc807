"""The HTTP client's limits, against a real server on this host."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from reprokit.core import http_client


@pytest.fixture
def url() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/round":
                self.send_response(302)
                self.send_header("Location", "/round")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Type", "Text/Plain; charset=utf-8")
            if self.path == "/packed":
                self.send_header("Content-Encoding", "gzip")
                self.end_headers()
                self.wfile.write(gzip.compress(b"0" * 1_000_000))
                return
            self.end_headers()
            for _ in range(20):  # one byte at a time is not a silence
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.05)

        def log_message(self, *args: object) -> None:
            pass

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


@pytest.mark.parametrize(
    "address", ["http://[", "http://127.0.0.1:x/", "ftp://127.0.0.1/x", "http://a b/", "http:///x"]
)
def test_what_is_not_an_address_answers_nothing(address: str) -> None:
    with pytest.raises(http_client.NoAnswer):
        get(address)
