"""Releases that come from a registry alone: those of RPM packages, and those whose packages moved to an archive."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reprokit.core.errors import Unsupported
from reprokit.engine import site
from reprokit.engine.site.config import Settings
from reprokit.environment import dockerfile, wording
from reprokit.environment.axes.operating_system import read
from reprokit.environment.catalog import OURS
from reprokit.environment.measured import Measured
from reprokit.environment.on_host import resolve_on
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from tests.unit.environment.builders import HOST, cell

REGISTRY, BOOTSTRAP = Supply(base_source="registry"), Supply(base_source="bootstrap")


def text(axes: dict[str, str], **environment: object) -> str:
    spec = cell(axes, **environment)
    return dockerfile.render(resolve(spec, REGISTRY), spec, sources={}, given_datasets=set()).dockerfile


def installs(rendered: str) -> list[str]:
    return re.findall(r"&& sh /run/reprokit/rpm-install\.sh (.+?)(?: \\)?\n", rendered)


@pytest.mark.parametrize("name", [name for name, release in OURS.releases().items() if release.manager == "dnf"])
def test_every_release_of_rpm_packages_has_a_python_and_a_compiler(name: str) -> None:
    release = OURS.releases()[name]
    found = text({"os": name, "python": ".".join(release.pythons[0].split(".")[:2]), "gcc": next(iter(release.gcc))})
    assert installs(found) == ["ca-certificates python3", "gcc gcc-c++ make python3-devel"]
    assert f"FROM {release.image}\n" in found
    assert "apt" not in found.replace("capture", "")


def test_packages_are_those_of_the_systems_package_manager() -> None:
    both = {"apt": ("libgl1",), "dnf": ("mesa-libGL",)}
    assert installs(text({"os": "rocky-9"}, **both))[-1] == "mesa-libGL"
    assert "apt-get install -y libgl1" in text({"os": "debian-12"}, **both)


@pytest.mark.parametrize(
    ("os", "key", "other", "has"),
    [("rocky-9", "apt", "apt", "dnf"), ("debian-12", "dnf", "dnf", "apt"), ("ubuntu-17.10", "dnf", "dnf", "apt")],
)
def test_packages_of_the_other_one_alone_are_refused_with_what_to_write(
    os: str, key: str, other: str, has: str
) -> None:
    words = (
        f"os {os}: environment.{other} names packages that {other} installs, and {os} has {has}: "
        f"name them in environment.{has} as that distribution calls them"
    )
    with pytest.raises(Unsupported, match=re.escape(words)):
        resolve(cell({"os": os}, **{key: ("wibble",)}), REGISTRY)


def test_an_image_of_ones_own_has_one_package_manager() -> None:
    assert installs(text({}, image="own:1", dnf=("wibble",))) == ["wibble"]
    with pytest.raises(Unsupported, match=r"keep either environment\.apt or environment\.dnf"):
        resolve(cell({}, image="own:1", apt=("a",), dnf=("b",)), REGISTRY)


@pytest.mark.parametrize("os", ["centos-7", "fedora-40", "ubuntu-17.10", "debian-10"])
def test_without_a_registry_they_are_refused_with_the_image(os: str) -> None:
    with pytest.raises(Unsupported, match=f"comes as the image {OURS.releases()[os].image} of a registry alone"):
        resolve(cell({"os": os}), BOOTSTRAP)


def test_interpreters_and_packages_of_elsewhere_are_fetched_on_the_default_system() -> None:
    for os in ("centos-7", "ubuntu-17.10"):
        found = text({"os": os, "python": "3.9", "gcc": "9"})
        assert "FROM debian:bookworm-slim AS uv" in found
    assert "FROM debian:bookworm-slim AS conda" in text({"os": "centos-7", "gcc": "9"})


@pytest.mark.parametrize(
    ("os", "place", "stages"),
    [("centos-7", "baseurl=http://vault.centos.org/", 2), ("centos-8", "baseurl=http://vault.centos.org/", 2),
     ("debian-10", "//archive.debian.org/", 2), ("rocky-8", "", 0)],
)  # fmt: skip
def test_packages_in_an_archive_are_looked_for_there_before_any_is_installed(os: str, place: str, stages: int) -> None:
    found = text({"os": os, "python": "2.7"})
    assert found.count("sed -i -E 's") - found.count("Components:") == stages
    if place:
        assert [part.index(place) < part.index("ca-certificates") for part in found.split("FROM ")[1:]] == [True, True]


def test_python_2_has_the_name_of_its_release() -> None:
    assert "rpm-install.sh ca-certificates python\n" in text({"os": "centos-7", "python": "2.7"})
    assert "rpm-install.sh ca-certificates python2\n" in text({"os": "rocky-8", "python": "2.7"})


def test_a_sanitizer_of_the_distributions_compiler_has_its_library() -> None:
    found = text({"os": "rocky-9", "gcc": "11"}, sanitize="address")
    assert "gcc gcc-c++ make python3-devel libasan" in found


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ('ID="rocky"\nVERSION_ID="8.10"', "rocky-8.10"),
        ('ID="centos"\nVERSION_ID="7"', "centos-7"),
        ("ID=fedora\nVERSION_ID=40", "fedora-40"),
        ('ID="amzn"\nVERSION_ID="2023"', "amazonlinux-2023"),
        ('ID="ol"\nVERSION_ID="8.10"', "oraclelinux-8.10"),
        ("ID=arch", "arch"),
    ],
)
def test_the_system_as_it_says_itself(said: str, value: str) -> None:
    assert read({"os": said}) == value


def test_rpm_packages_are_measured_where_there_are_any() -> None:
    found = Measured.parse("##rpm\nbash 5.1.8-9.el9\ngpg-pubkey 1-2\nodd line of three\n##end\n")
    assert found.packages == {"pip": {}, "apt": {}, "rpm": {"bash": "5.1.8-9.el9"}}
    assert Measured.parse("##rpm\n##end\n").packages == {"pip": {}, "apt": {}}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"dnf": ("bash", "wibble")},
            "environment.dnf: wibble is not installed on this host (dnf install as root helps)",
        ),
        ({"dnf": ("bash-5.1.8",)}, ""),
        ({"apt": ("bash",)}, "environment.apt: this host has no dpkg"),
        ({"apt": ("bash",), "dnf": ("bash",)}, ""),
    ],
)
def test_a_host_of_rpm_packages_has_what_is_installed(asked: dict[str, tuple[str, ...]], words: str) -> None:
    host = replace(HOST, apt=None, rpm={"bash": "5.1.8-9.el9"})
    if not words:
        resolve_on(host, cell({}, **asked))
        return
    with pytest.raises(Unsupported, match=re.escape(words)):
        resolve_on(host, cell({}, **asked))


def test_a_host_of_debian_has_no_rpm_packages() -> None:
    with pytest.raises(Unsupported, match=r"environment\.dnf: this host has no rpm"):
        resolve_on(HOST, cell({}, dnf=("bash",)))


def test_a_build_reaches_the_archives_to_which_packages_moved() -> None:
    archives = site.current({}, Settings()).access.archives
    assert {"http://vault.centos.org/", "http://archive.debian.org/", "http://old-releases.ubuntu.com/"} <= set(
        archives
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CentOS Linux release 7.9.2009 (Core)", "centos-7.9.2009"),
        ("Red Hat Enterprise Linux Server release 7.6 (Maipo)", "rhel-7.6"),
        ("Linux-4.18.0-348.el8.x86_64-x86_64-with-redhat-8.5-Ootpa", "rhel-8"),
        ("gcc (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)", ""),
        ("Oracle Linux Server 8.6", "oraclelinux-8"),
        ("Amazon Linux release 2 (Karoo)", "amazonlinux-2"),
        ("Linux 5.6.18-300.fc32.x86_64", "fedora-32"),
        ("Linux-5.17.5-300.fc36.x86_64-x86_64-with-glibc2.35", "fedora-36"),
        ("Linux-5.17.5-300.fc36.x86_64-x86_64-with-glibc2.31", ""),  # a container of another system
        ("Pop!_OS 22.04 LTS", "pop-22.04"),
        ("Scientific Linux 7.9", "scientific-linux-7.9"),
    ],
)
def test_how_reports_write_them(text: str, value: str) -> None:
    assert wording.os(text) == value


def test_the_newer_of_two_standard_libraries_is_found_on_rpm_systems_too() -> None:
    link = 'ln -s /usr/lib64/libstdc++.so.6 "/usr/lib/$(uname -m)-linux-gnu/"'
    found = text({"os": "rocky-9", "gcc": "9"})
    assert found.index(link) < found.index("sh /run/reprokit/gcc-tree.sh")
    assert link not in text({"os": "debian-12", "gcc": "9"})
