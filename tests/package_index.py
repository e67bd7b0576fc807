"""A package index on loopback that answers in JSON with the time of each upload (PEP 691 and 700), or only in HTML."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.unit.serving import Quiet, serving

JSON = "application/vnd.pypi.simple.v1+json"


def wheel(name: str, version: str, *, requires: tuple[str, ...] = (), code: str = "") -> tuple[str, bytes]:
    """The file name and the bytes of a wheel with one module that says its version."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{name}.py": code or f'version = "{version}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py2-none-any\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return f"{name}-{version}-py2.py3-none-any.whl", out.getvalue()


BACKEND = """
import base64, os, zipfile
def build_wheel(folder, settings=None, metadata=None):
    name = "{name}-{version}-py2.py3-none-any.whl"
    info = "{name}-{version}.dist-info"
    import sys
    sys.path.insert(0, os.getcwd())
    import {builder}
    files = {{
        "{name}.py": "version = '{version}'; built_with = '%s'\\n" % {builder}.version,
        info + "/METADATA": "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n",
        info + "/WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py2-none-any\\n"
            "Tag: py3-none-any\\n",
    }}
    record = "".join("%s,,\\n" % one for one in list(files) + [info + "/RECORD"])
    with zipfile.ZipFile(os.path.join(folder, name), "w") as out:
        for one, text in list(files.items()) + [(info + "/RECORD", record)]:
            out.writestr(one, text)
    return name
"""


def sdist(name: str, version: str, builder: str) -> tuple[str, bytes]:
    """A source distribution that is built with the newest ``builder``, whose version its ``built_with`` is."""
    files = {
        "pyproject.toml": f'[build-system]\nrequires = ["{builder}"]\n'
        'build-backend = "backend"\nbackend-path = ["."]\n',
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "backend.py": BACKEND.format(name=name, version=version, builder=builder),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for file, text in files.items():
            member = tarfile.TarInfo(f"{name}-{version}/{file}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return f"{name}-{version}.tar.gz", out.getvalue()


@dataclass
class PackageIndex:
    """An index. ``times``: file -> its ``upload-time``, of any type; None = the index does not say it.

    ``html``: it knows no JSON. ``strict``: it answers 404 where JSON is asked for. ``flaky``: it answers each page with
    503 once. ``asked``: the paths that were asked for.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    times: dict[str, object] = field(default_factory=dict)
    html: bool = False
    strict: bool = False
    flaky: bool = False
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def add(self, file: tuple[str, bytes], time: object) -> None:
        """Add a file that was received at a time."""
        self.files[file[0]], self.times[file[0]] = file[1], time

    def page(self, project: str) -> list[dict[str, object]]:
        """The files of a project, as PEP 691 has them."""
        return [
            {
                "filename": name,
                "url": f"../../files/{name}",
                "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                **({} if self.times[name] is None else {"upload-time": self.times[name]}),
            }
            for name, content in self.files.items()
            if name.partition("-")[0] == project
        ]


class _Handler(Quiet):
    index: PackageIndex

    def do_GET(self) -> None:
        """Answer with a page or a file."""
        index = self.index
        again = self.path in index.asked
        index.asked.append(self.path)
        kind, _, name = self.path.strip("/").partition("/")
        accepted = self.headers.get("Accept", "")
        status, media, body = 404, "text/plain", b""
        if kind == "files" and name in index.files:
            status, media, body = 200, "application/octet-stream", index.files[name]
        elif kind == "simple" and index.flaky and not again:
            status = 503
        elif kind == "simple" and index.strict and JSON in accepted:
            status = 404
        elif kind == "simple" and (rows := index.page(name)):
            status = 200
            if JSON in accepted and not index.html:
                media = JSON
                body = json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": rows}).encode()
            else:
                media = "text/html"
                links = "".join(f'<a href="{row["url"]}">{row["filename"]}</a>\n' for row in rows)
                body = f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
        self.answer(status, body, Content_Type=media, Content_Length=str(len(body)))


@contextlib.contextmanager
def package_index(index: PackageIndex) -> Iterator[PackageIndex]:
    """Serve an index; its ``address`` is that of its pages."""
    with serving(type("Handler", (_Handler,), {"index": index})) as address:
        index.address = f"http://{address}/simple"
        yield index
