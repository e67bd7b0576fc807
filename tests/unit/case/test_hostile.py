"""Cases and files beside them that would hang, leave their folder or end in a defect: refused, with a position."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit import pytest_plugin
from reprokit.cli import invoke
from reprokit.core import json_text
from reprokit.core.errors import ReprokitError
from reprokit.engine.site import config
from reprokit.environment import cases
from reprokit.run import lock_file

HEAD = "schema: reprokit/v1\nid: x\ntitle: t\ncommand: 'true'\n"
DIGITS = "9" * 400

REFUSED = {
    **{
        f"{key}-{name}": f"resources: {{{key}: '{text}'}}"
        for key in ("memory", "shm_size", "gpu_memory", "timeout", "cpus", "gpus", "pids")
        for name, text in {
            "digits": DIGITS, "digits-unit": f"{DIGITS}g", "point": f"1.{DIGITS}", "exponent": "1e400",
            "infinite": "inf", "not": "nan", "minus": "-1", "arabic": "\u0661\u0662",
        }.items()
    },
    "trials": f"trials: {DIGITS}",
    "trials-max": f"trials: {{max: {DIGITS}, confidence: 0.9, rate: 0.1}}",
    "trials-rate": f"trials: {{max: 3, confidence: 0.9, rate: 0.{DIGITS}}}",
    "exit-code": f"expect: {{failure: {{exit_code: {DIGITS}}}}}",
    "layout-min": f"datasets: {{d: {{path: d, layout: [{{glob: '*', min: {DIGITS}}}]}}}}",
    **{
        f"git-{name}": f"sources: {{s: {{git: {json.dumps(url)}, ref: v1, path: s}}}}"
        for name, url in {
            "option": "-o@h:x", "long-option": "--upload-pack=touch pwned", "u": "-u./pwned",
            "ssh-option": "ssh://-oProxyCommand=x/y",
            "user-option": "ssh://u@-oProxyCommand=x/y", "scp-host": "git@-oProxyCommand=x:y", "scp-path": "git@h:-x",
            "dash-user": "-x@h:y", "ext": "ext::sh -c touch% pwned", "fd": "fd::17",
            "newline": "https://h/x\n-o", "nul": "./a\0b",
        }.items()
    },
    **{
        f"ref-{name}": f"sources: {{s: {{git: 'https://h/x', ref: {json.dumps(ref)}, path: s}}}}"
        for name, ref in {
            "option": "-x", "upload": "--upload-pack=x", "range": "a..b", "space": "a b", "refspec": "+a:b",
        }.items()
    },
    **{
        f"digest-{name}": f"datasets: {{d: {{path: d, sha256: {{{json.dumps(path)}: {'a' * 64}}}}}}}"
        for name, path in {
            "parent": "../../etc/passwd", "absolute": "/etc/passwd", "inner": "a/../../x", "dots": "..", "empty": "",
            "newline": "a\nb",
        }.items()
    },
    **{
        f"glob-{name}": f"datasets: {{d: {{path: d, layout: [{{glob: {json.dumps(glob)}, min: 1}}]}}}}"
        for name, glob in {"parent": "../*", "absolute": "/etc/*", "inner": "a/../../*", "empty": ""}.items()
    },
    **{
        f"file-{name}": f"files: {{{json.dumps(path)}: x}}"
        for name, path in {
            "parent": "../x", "absolute": "/etc/x", "home": "~/x", "inner": "a/../../x", "dot": ".",
            "long": "x" * 300, "newline": "a\nb",
        }.items()
    },
    "image-option": "environment: {image: '-v'}",
    "user-option": "resources: {user: '-u'}",
    "workdir": "workdir: /a/../..",
    "deep-flow": "env: " + "[" * 10_000 + "]" * 10_000,
    "deep-map": "env: " + "{a: " * 10_000 + "}" * 10_000,
    "deep-block": "env:\n" + "\n".join(" " * n + "a:" for n in range(1, 200)),
    "many-values": "tags:\n" + "- a\n" * 60_000,
    "long-by-aliases": "env:\n  A: &a " + "x" * 100_000 + "\n" + "".join(f"  A{n}: *a\n" for n in range(200)),
    "cells": "matrix: {" + ", ".join(f"a{n}: [{', '.join(map(str, range(30)))}]" for n in range(12)) + "}",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_case_is_refused_with_a_position(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text(HEAD + REFUSED[name] + "\n", encoding="utf-8")
    assert invoke(["validate", str(tmp_path / "x.yaml")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{tmp_path / 'x.yaml'}:"), said
    assert "a defect of reprokit" not in said
    assert len(said) < 5000


@pytest.mark.parametrize("way", ["named", "folder", "id", "lock"])
def test_a_pipe_as_a_case_does_not_hang(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(HEAD)
    os.mkfifo(tmp_path / ("good.lock.yaml" if way == "lock" else "x.yaml"))
    words = {"named": ["validate", "x.yaml"], "folder": ["validate", "."], "id": ["validate", "--cells", "other-id"]}
    assert invoke(words.get(way, ["run", "--build-only", "--locked", "good.yaml"])) in (2, 3)
    said = capsys.readouterr().err
    assert "a defect of reprokit" not in said
    if way != "id":
        assert "a named pipe, not a regular file" in said


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/urandom", "/dev/tty", "/dev/full"])
def test_a_device_as_a_case_is_refused(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link.yaml").symlink_to(path)
    for name in (path, str(tmp_path / "link.yaml"), str(tmp_path)):
        assert invoke(["validate", name]) == 2
        said = capsys.readouterr().err
        assert "cannot be read" in said
        assert "a defect of reprokit" not in said


def test_what_a_shell_pipes_in_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, HEAD.encode())
    os.close(writing)
    try:
        assert invoke(["validate", f"/dev/fd/{reading}"]) == 0
    finally:
        os.close(reading)


def test_no_key_adds_a_line_to_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    key = json.dumps("a\nx.yaml: valid\u202e")
    path.write_text(f"{HEAD}env: {{{key}: 1}}\nsources: {{{key}: {{git: x}}}}\nmatrix: {{{key}: []}}\n{key}: 1\n")
    assert invoke(["validate", str(path)]) == 2
    *lines, count = capsys.readouterr().err.splitlines()
    assert len(lines) >= 5
    assert count == f"{len(lines)} problems"
    assert all(line.startswith(f"{path}:") for line in lines)


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "command",
    [["run", "--cells", "deep.json"], ["store", "merge", "s", "--planned", "deep.json"], ["config"], ["show"]],
    ids=lambda words: words[0],
)
def test_deep_nesting_is_refused(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").mkdir()
    (tmp_path / "deep.json").write_text(DEEP)
    if command[0] in ("config", "show"):
        (tmp_path / "reprokit.toml").write_text(f"datasets = {DEEP}\n")
    invoke(command)
    assert "a defect of reprokit" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "text", [DEEP, '{"a":' * 100_000, "9" * 5000, "{", "", "\x00", "[1e999"], ids=lambda text: text[:6]
)
def test_json_of_others_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever its words
        json_text.loads(text)


def _collected(path: Path) -> None:
    parent = SimpleNamespace(
        config=SimpleNamespace(getoption=lambda name: True), session=SimpleNamespace(isinitpath=lambda path: False)
    )
    assert pytest_plugin.pytest_collect_file(path, parent) is None  # type: ignore[arg-type]


READERS: dict[str, Callable[[Path], object]] = {
    "case.yaml": lambda path: cases.load(str(path)),
    "case.lock.yaml": lock_file.load,
    "reprokit.toml": lambda path: config.load({"HOME": "/nonexistent"}, path.parent),
    "data.yaml": _collected,
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_of_a_checkout_is_read_within_limits_and_no_pipe_is_waited_for(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    refused = pytest.raises(ReprokitError, match=r"MB|MiB|larger")
    with nullcontext() if name == "data.yaml" else refused:
        READERS[name](path)
    path.unlink()
    os.mkfifo(path)
    with suppress(ReprokitError):
        READERS[name](path)
