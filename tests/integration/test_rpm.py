"""A case on a distribution of RPM packages: the dnf that Debian packages, and a repository that the test makes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import docker
import pytest

from tests.conftest import remove_image
from tests.integration.test_run import User

pytestmark = pytest.mark.integration

NAME = "reprokit/test-rpm:99"
BASE = """\
schema: reprokit/v1
id: rpm-base
title: What a distribution of RPM packages starts from
matrix: {os: [debian-12], python: [none]}
environment:
  apt: [dnf, rpm, createrepo-c, python3-venv, gcc, g++]
  setup: |
    for name in ca-certificates python3 python3-devel gcc gcc-c++ make libwibble; do
      printf '%s\\n' "Name: $name" 'Version: 1.2' 'Release: 3.own' 'Summary: none' 'License: none' \\
        'BuildArch: noarch' 'AutoReqProv: no' '%description' 'none' '%files' > own.spec
      rpmbuild --quiet -bb --define '_rpmdir /repository' own.spec
    done
    rm own.spec
    createrepo_c --quiet /repository
    mkdir -p /etc/yum.repos.d /etc/rpm
    printf '%s\\n' '[own]' 'name=own' 'baseurl=file:///repository' 'gpgcheck=0' > /etc/yum.repos.d/own.repo
    echo 99 > /etc/dnf/vars/releasever
    echo '%_dbpath /var/lib/rpm' > /etc/rpm/macros  # Debian's own default is a folder of each user
command: "true"
"""
RELEASE = """\
releases:
  own-99:
    {{family: own, manager: dnf, image: "{image}", python: ["3.11"], gcc: {{"12": "12"}}, glibc: "2.36", epoch: 0}}
"""
CASE = """\
schema: reprokit/v1
id: on-rpm
title: A case on RPM packages
matrix: {os: [own-99, debian-12], python: ["3.11"], gcc: ["12"]}
environment: {apt: [tree], dnf: [libwibble], pip: [iniconfig==1.1.1]}
command: |
  python -c "import iniconfig; print(iniconfig.__file__)"
  if command -v rpm; then rpm -q libwibble gcc-c++; else tree --version; fi
expect: {reproduces: none}
"""
UNKNOWN = """\
schema: reprokit/v1
id: no-such-rpm
title: A package that no repository has
matrix: {os: [own-99]}
environment: {dnf: [libwibble, libwobble]}
command: "true"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image whose package manager is dnf, as a distribution publishes it."""
    folder = tmp_path_factory.mktemp("base")
    one = User(folder)
    one.write("base.yaml", BASE)
    # Built as asked; that dnf brings a Python, where the case wants none, does not matter here.
    one.types("run", "base.yaml", "--json", "base.json", status=3)
    tag = json.loads((folder / "base.json").read_text())["cases"][0]["cells"][0]["image"]["tag"]
    release = r"printf '%s\n' ID=own VERSION_ID=99 > /etc/os-release"
    client = docker.from_env()
    text = f"FROM {tag}\nUSER root\nRUN {release}\n"
    client.images.build(fileobj=io.BytesIO(text.encode()), tag=NAME, rm=True, forcerm=True)
    client.close()
    yield NAME
    remove_image(NAME)


@pytest.mark.nightly
def test_packages_of_both_kinds_are_installed_measured_and_judged(user: User, image: str) -> None:
    user.write("releases.yaml", RELEASE.format(image=image))
    user.write("reprokit.toml", 'compatibility = "releases.yaml"\n')
    user.write("case.yaml", CASE)
    user.write("unknown.yaml", UNKNOWN)
    user.types("run", "case.yaml", "--base", "registry", "--only", "os=own-99")
    [cell] = user.cells()
    assert cell["verdict"] == "not-reproduced", cell["reason"]
    packages = cell["environment"]["packages"]
    assert packages["rpm"] == dict.fromkeys(
        ["ca-certificates", "python3", "python3-devel", "gcc", "gcc-c++", "make", "libwibble"], "1.2-3.own"
    )
    assert packages["pip"]["iniconfig"] == "1.1.1"
    assert cell["environment"]["os"] == "own-99"
    assert "libwibble-1.2-3.own" in user.types("show", "last", "1", "--log")

    user.types("run", "case.yaml", "--only", "os=debian-12")
    [other] = user.cells()
    assert other["verdict"] == "not-reproduced", other["reason"]
    assert "rpm" not in other["environment"]["packages"]

    user.types("run", "unknown.yaml", "--base", "registry", status=3)
    [failed] = user.cells()
    assert failed["verdict"] == "build-failed"
    assert "the distribution has no package libwobble (step: dnf install libwibble libwobble)" in failed["reason"]


def test_a_lock_of_rpm_packages_is_refused_with_the_reason(user: User, image: str) -> None:
    user.write("releases.yaml", RELEASE.format(image=image))
    user.write("reprokit.toml", 'compatibility = "releases.yaml"\n')
    user.write("case.yaml", CASE)
    said = user.types("lock", "case.yaml", "--base", "registry", "--only", "os=own-99", status=3)
    assert "a lock holds no RPM packages, and own-99 has them" in said
    assert not (user.folder / "case.lock").exists()
