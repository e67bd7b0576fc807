"""Packages of a draft by the package managers of its systems, and what reports of RPM distributions install."""

from __future__ import annotations

import pytest

from reprokit.intake.distributions import lists
from reprokit.intake.draft import render
from reprokit.intake.drafting import draft


@pytest.mark.parametrize(
    ("systems", "found"),
    [
        ([], {"apt": ["build-essential", "cmake", "libgl1", "g++", "wibble"]}),
        (["debian-12", "no-such-1"], {"apt": ["build-essential", "cmake", "libgl1", "g++", "wibble"]}),
        (["rocky-9"], {"dnf": ["gcc", "gcc-c++", "make", "cmake", "mesa-libGL", "wibble-devel", "wibble"]}),
        (
            ["rocky-9", "debian-12"],
            {
                "apt": ["build-essential", "cmake", "libgl1", "g++", "wibble"],
                "dnf": ["gcc", "gcc-c++", "make", "cmake", "mesa-libGL", "wibble-devel", "wibble"],
            },
        ),
    ],
)
def test_each_package_manager_has_its_own_names(systems: list[str], found: dict[str, list[str]]) -> None:
    assert lists(["build-essential", "cmake", "libgl1"], ["gcc-c++", "wibble-devel", "wibble"], systems) == found


def test_no_list_without_packages() -> None:
    assert lists([], [], ["rocky-9", "debian-12"]) == {}


REPORT = """\
# wibble does not build

OS: CentOS Linux release 7.9.2009 (Core)
gcc (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)

```
yum install -y cmake zlib-devel
mkdir build && cd build && cmake .. && make
```

```
wibble.c:3:10: fatal error: wobble.h: No such file or directory
```
"""


def test_a_report_of_centos_gets_its_system_and_its_packages() -> None:
    text = render(draft(REPORT))
    assert "os: [centos-7]" in text
    assert 'gcc: ["4.8"]' in text
    assert "  dnf: [make, cmake, zlib-devel]" in text
    assert "  apt:" not in text
    assert "# the image has: yum install -y cmake zlib-devel" in text
    assert "rhel" not in text  # the packager of GCC is not the system


DOCKERFILE = """\
# wibble fails

```dockerfile
FROM rockylinux:8
RUN dnf -y update && dnf install -y wget python3-devel
RUN pip3 install wibble==1.2
CMD ["wibble", "--all"]
```

```
ValueError: wobble
```
"""


def test_a_dockerfile_of_rocky_gets_its_system_and_its_packages() -> None:
    text = render(draft(DOCKERFILE))
    assert "os: [rocky-8]" in text
    assert "  dnf: [wget, python3-devel]" in text
    assert "update" not in text
