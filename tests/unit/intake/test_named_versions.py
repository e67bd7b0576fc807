"""Pairs of a name and a version that count, what a report is about, and systems, in invented reports."""

from __future__ import annotations

import pytest

from reprokit.environment import wording
from reprokit.intake.drafting import draft
from reprokit.intake.environments import lines, named_versions

FENCED = "```\n{}\n```"


def pairs(text: str, *known: str) -> dict[str, str]:
    split = lines.split(text)
    pasted = [line.number for line in split if line.fence]
    return {one.name: one.version for one in named_versions.find(split, pasted, known) if one.version}


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("wobble v1.37.0", "wobble", "1.37.0"),
        ('wobble-lib = "^1.3.0"', "wobble-lib", "1.3.0"),
        ('"@wobble/core": "^7.21.0",', "@wobble/core", "7.21.0"),
        ("### Versions\ncore, wobble-spark 1.8.5", "wobble-spark", "1.8.5"),
        ("We run a 6-node Wobble cluster (version 7.2.5) in containers.", "wobble", "7.2.5"),
        (FENCED.format("$ wobble-server --version\nWobble server v=7.0.7 sha=0 bits=64"), "wobble", "7.0.7"),
        (FENCED.format("[debug] wobble version stable@2024.11.18 from wobble/wobble"), "wobble", "2024.11.18"),
        (FENCED.format("[debug] libraries: jelly-1.2.3, requests-2.32.3, gloop-3.46.1"), "requests", "2.32.3"),
        ("环境：\n- wobble 版本：2.4.1", "wobble", "2.4.1"),
        ("Wobble Gloop version: 0.17.0", "wobble-gloop", "0.17.0"),
        ("bazel 5.1.0", "bazel", "5.1.0"),
        ("- **Wobble version (use the command below)**: v1.10.0-rc0", "wobble", "1.10.0-rc0"),
        ("- Gloopy => 4.5.5", "gloopy", "4.5.5"),
        ("It is from PyPI (jelly 1.13.0, Wobble 2.1.0, gloop 0.3.1).", "jelly", "1.13.0"),
        (FENCED.format("require (\n\tgithub.com/gloop/bazel v1.4.2\n)"), "bazel", "1.4.2"),
    ],
)
def test_a_pair_counts_by_what_speaks_for_it(text: str, name: str, version: str) -> None:
    assert pairs(text).get(name) == version


@pytest.mark.parametrize(
    "text",
    [
        "The server 172.18.0.6 answers on port 6379.",
        "It was on 2024.11.18 at 12.30",
        "See section 3.2.1 and figure 1.2.3.",
        "loss: 0.123, accuracy: 0.987",
        "learning rate 0.001 with momentum 0.9.1s",
        "It takes 1.2.3 seconds",
        "wobble 1.5 GB",
        "wobble requires jelly>=1.2.3",
        FENCED.format('  File "/x/wobble-1.2.3/y.py", line 12, in z'),
        FENCED.format("wobble_scale = 1.25"),
        "User-Agent: Mozilla/5.0.1",
        "GPU compute capability 7.5",
        "pip install wobble==1.2.3",
        "openblas configuration: OpenBLAS 0.3.28 Haswell",
        "GloopOS Viewer 1.2.3",
        "Errors when building v2.14.0 from source",
        "The fix is planned for wobble version 2.1.0",
        "- Which one (e.g., wobble-cpu-0.4.1)",
        "The last working version: 2.0.3",
        FENCED.format("Build Dependencies:\n  blas:\n    name: wobble-blas\n    version: 0.3.28"),
    ],
)
def test_other_numbers_do_not_count(text: str) -> None:
    assert pairs(text) == {}


def test_the_highest_score_of_a_name_counts_and_none_where_two_are_alike() -> None:
    assert pairs("wobble version 1.2.3\nwobble 1.2.4") == {"wobble": "1.2.3"}
    assert pairs("wobble version 1.2.3\nwobble version 1.2.4") == {}


@pytest.mark.parametrize(
    ("text", "title", "subject"),
    [
        ("See https://github.com/wobble/wobble/pull/19 for it.", "A job hangs", "wobble"),
        ("https://github.com/gloop/rust/issues/3", "It stops", "gloop"),
        ("### Gloop Core version\n1.2", "It stops", "gloop-core"),
        ("**Wobble version:** 1.2", "wobble stops", "wobble"),
        ("It stops. https://github.com/user-attachments/assets/19", "It stops", ""),
        ("### Which version\n1.2\n### Operating system version\n3", "It stops", ""),
        ("https://github.com/a/jelly/x https://github.com/b/gloop/x", "It stops", ""),
        ("### Running Gloop with Docker?\nno\n### Command\ngloop launch --n 3", "It stops", "gloop"),
        ("import numpy as np\nfrom gloop.parsing import parse", "It stops", "gloop"),
        ("After `gloop-0.2.3-installer.sh`:\n$ jelly help", "0.2.3 stops", "gloop"),
        ("### Apache Gloop version\n1.2\n### Versions of Apache Gloop Jellies\n3", "Apache stops", "apache-gloop"),
    ],
)
def test_what_a_report_is_about(text: str, title: str, subject: str) -> None:
    assert named_versions.subject(text, title) == subject


REPORT = (
    "# A job stops in wobble\n\nSee https://github.com/wobble/wobble/pull/19.\n{}\n\n"
    "```\n$ python job.py\nSegmentation fault\n```\n"
)


@pytest.mark.parametrize(
    ("said", "pip"),
    [
        ("After updating to v2.0.0, it never starts.", ["wobble==2.0.0"]),
        ("Using version 0.13.0, it stops.", ["wobble==0.13.0"]),
        ("### Version\n\n1.8.5", ["wobble==1.8.5"]),
        ("### Version info / 版本信息\n\nv1.3.0.post2", ["wobble==1.3.0.post2"]),
        ("### Tested on\n\n- 1.8.5", ["wobble==1.8.5"]),
        ("1. install latest version (1.19.2)", ["wobble==1.19.2"]),
        ("我用的是最新的 wobble，0.9.2 版本", ["wobble==0.9.2"]),
        ("Its protocol version 3.1.2 is old.", None),
        ("It runs on Gloop Base (Jelly) Version 18.0.", None),
    ],
)
def test_a_version_without_a_name_is_of_what_the_report_is_about(said: str, pip: list[str] | None) -> None:
    assert draft(REPORT.format(said)).data.get("environment", {}).get("pip") == pip


@pytest.mark.parametrize("said", ["It is a regression in gloop 2.4.0, 2.3.9 is fine.", "gloop 2.3.9 正常, 2.4.0 报错"])
def test_a_name_of_the_title_is_compared(said: str) -> None:
    found = draft(f"# gloop stops\n\n{said}\n\n```\n$ gloop run\nError: gloop broke\n```\n").data
    assert found["matrix"]["gloop"] == ["2.3.9", "2.4.0"]


def test_what_is_printed_decides_which_version_failed() -> None:
    said = "```\nWobble v1.8.0\n```\nThe same file with wobble 1.7.5 produces no difference."
    assert draft(REPORT.format(said)).data["matrix"]["wobble"] == ["1.7.5", "1.8.0"]


@pytest.mark.parametrize(
    ("said", "comment"),
    [
        ("Gentoo amd64 there.", "gentoo was reported"),
        ("环境：麒麟V10 桌面版", "kylin-v10 was reported"),
        ("Building fails in AIX.", "aix was reported"),
        ("```\n[debug] Linux-6.11.9-arch1-1-x86_64-with-glibc2.40\n```", "arch was reported"),
        ("- macOS", "the report is from macOS"),
        ("```\nWobble v1.8.0\non darwin_arm64\n```", "the report is from macOS"),
        ("It is a search in an archive, and of a mint or a void.", "the report names no distribution"),
    ],
)
def test_systems_that_no_image_has_are_named(said: str, comment: str) -> None:
    from reprokit.intake.draft import render

    text = REPORT.format(said) + "\nPython 3.11\n"
    assert comment in " ".join(render(draft(text)).replace("#", " ").split())


def test_names_of_systems_in_words() -> None:
    assert wording.os("FreeBSD 13.2") == "freebsd-13.2"
    assert wording.os("openEuler 22.03") == wording.os("欧拉 22.03") == "openeuler-22.03"
    assert wording.family("monarch") == wording.os("search 12 results") == ""
