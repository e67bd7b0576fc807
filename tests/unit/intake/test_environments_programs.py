"""Outputs of single programs, lists of packages, Dockerfiles and docker run."""

from __future__ import annotations

import pytest

from reprokit.environment import wording
from reprokit.intake.environments import find, programs

SMI = """\
```
Mon Mar  6 10:11:12 2023
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:00:1E.0 Off |                    0 |
| N/A   34C    P0    38W / 300W |      0MiB / 16384MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  On   | 00000000:00:1F.0 Off |                    0 |
| N/A   34C    P0    38W / 300W |      0MiB / 16384MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
```
"""


def test_what_the_driver_supports_is_never_the_cuda_axis() -> None:
    (found,) = find(SMI)
    assert (found.kind, dict(found.axes)) == ("nvidia-smi", {})
    assert (found.driver, found.driver_cuda) == ("525.60.13", "12.0")
    assert found.gpus == ("Tesla V100-SXM2... (16384 MiB)",) * 2
    assert found.notes == ("the driver supports CUDA up to 12.0; the report does not say which CUDA was installed",)
    # Nor for whoever reads the values later: no key of theirs is CUDA.
    assert list(found.values) == ["nvidia-smi", "GPU"]
    (typed,) = find("NVIDIA-SMI 470.82.01\nDriver Version: 470.82.01\nCUDA Version: 11.4\n")
    assert (dict(typed.axes), typed.driver_cuda) == ({}, "11.4")
    (typed,) = find("- GPU: Tesla T4\n- Driver supports CUDA Version: 11.4\n- Python: 3.8\n")
    assert dict(typed.axes) == {"python": "3.8"}


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        (
            (
                "$ nvcc -V\nnvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2021 NVIDIA Corporation\n"
                "Built on Sun\nCuda compilation tools, release 11.4, V11.4.120\n"
                "Build cuda_11.4.r11.4/compiler.30300941_0\n"
            ),
            "cuda=11.4.120",
        ),
        (
            "gcc (Debian 10.2.1-6) 10.2.1 20210110\nCopyright (C) 2020 Free Software Foundation, Inc.\n",
            "gcc=10.2.1 os=debian-11",
        ),
        ("gcc version 7.5.0 (Ubuntu 7.5.0-3ubuntu1~18.04)\n", "gcc=7.5.0 os=ubuntu-18.04"),
        ("Python 3.6.9 (default, Jan 26 2021, 15:33:00)\n[GCC 8.4.0] on linux\n", "python=3.6.9"),
        ("$ python --version\nPython 3.12.1\n", "python=3.12.1"),
        ('NAME="Ubuntu"\nVERSION="18.04.6 LTS (Bionic Beaver)"\nPRETTY_NAME="Ubuntu 18.04.6 LTS"\n', "os=ubuntu-18.04"),
        (
            "Distributor ID:\tDebian\nDescription:\tDebian GNU/Linux 11 (bullseye)\nRelease:\t11\n",
            "os=debian-11",
        ),
        ("CentOS Linux release 7.8.2003 (Core)\n", "os=centos-7.8.2003"),
        ("CUDA Version 10.1.243\n", "cuda=10.1.243"),
        ("#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 4\n#define CUDNN_PATCHLEVEL 1\n", "cudnn=8.4.1"),
        (
            (
                "W0101 10:00:00.123456   77 gpu_resources.cc:119] Please NOTE: device: 0, GPU Capability: 7.5, "
                "Driver API Version: 11.6, Runtime API Version: 11.2\n"
                "W0101 10:00:00.223456   77 gpu_resources.cc:149] device: 0, cuDNN Version: 8.1.\n"
            ),
            "cuda=11.2 cudnn=8.1",
        ),
    ],
)
def test_outputs_of_single_programs(text: str, axes: str) -> None:
    (found,) = find(text)
    assert " ".join(f"{name}={value}" for name, value in found.axes.items()) == axes
    assert found.values


def test_the_day_on_which_a_kernel_was_built_is_not_a_release() -> None:
    assert wording.os("Linux 5.15.0-89-generic #99-Ubuntu SMP Mon Oct 30 20:42:41 UTC 2023 x86_64") == ""
    assert wording.os("Linux 6.5.0-14-generic #14~22.04.1-Ubuntu SMP PREEMPT Mon Nov 20 UTC 2") == "ubuntu-22.04"


def test_uname_gives_the_system_but_not_the_host() -> None:
    (found,) = find("Linux box42 5.15.0-50-generic #56-Ubuntu SMP Tue x86_64 GNU/Linux\n")
    assert (found.system, found.axes) == ("linux", {})
    assert found.values == {"uname": "Linux 5.15.0-50-generic #56-Ubuntu SMP Tue x86_64 GNU/Linux"}
    (found,) = find("ldd (Ubuntu GLIBC 2.31-0ubuntu9.7) 2.31\n")
    assert found.glibc == "2.31"


def test_pip_list_freeze_and_requirements() -> None:
    (listed,) = find(
        "Package    Version\n---------- -------\nabsl-py    1.3.0\nBrotli     1.0.9   /opt/x\n\nthat was it\n"
    )
    assert (listed.kind, dict(listed.packages)) == ("pip", {"absl-py": "1.3.0", "brotli": "1.0.9"})
    (frozen,) = find(
        "attrs==22.1.0\n-e git+https://example.org/a/b.git@0a1b#egg=b\n"
        "nvidia_cudnn_cu11==8.5.0.96\ntorch==1.13.1+cu117\n"
    )
    assert dict(frozen.packages) == {"attrs": "22.1.0", "nvidia-cudnn-cu11": "8.5.0.96", "torch": "1.13.1+cu117"}
    assert frozen.requirements == ("-e git+https://example.org/a/b.git@0a1b#egg=b",)
    assert dict(frozen.axes) == {"cudnn": "8.5.0.96", "cuda": "11.7"}
    (asked,) = find("torch>=1.9\nnumpy<1.24,>=1.20\ntqdm==4.64.0\nopencv-python\n")
    assert (asked.kind, asked.requirements) == (
        "requirements",
        ("torch>=1.9", "numpy<1.24,>=1.20", "tqdm==4.64.0", "opencv-python"),
    )
    assert dict(asked.packages) == {"tqdm": "4.64.0"}
    (log,) = find("Successfully installed numpy-1.22.4 python-dateutil-2.8.2 torch-1.12.1\n")
    assert dict(log.packages) == {"numpy": "1.22.4", "python-dateutil": "2.8.2", "torch": "1.12.1"}
    assert find("it\nfails\nhere\nagain\n") == []


def test_conda_list_separates_packages_that_are_not_for_python() -> None:
    text = """\
# packages in environment at /opt/conda/envs/x:
#
# Name                    Version                   Build  Channel
_libgcc_mutex             0.1                        main
openssl                   1.1.1s               h7f8727e_0
python                    3.9.15               h7a1cb2a_2
pytorch                   1.13.0          py3.9_cuda11.6_cudnn8.3.2_0    pytorch
numpy                     1.23.4           py39h14f4228_0
thop                      0.1.1                    pypi_0    pypi
gcc_linux-64              9.5.0               h4258300_12    conda-forge
"""
    (found,) = find(text)
    assert dict(found.axes) == {"python": "3.9.15", "cuda": "11.6", "cudnn": "8.3.2", "gcc": "9.5.0"}
    assert dict(found.packages) == {"torch": "1.13.0", "numpy": "1.23.4", "thop": "0.1.1"}


DOCKERFILE = """\
```dockerfile
FROM node:20 AS pages
RUN npm install
FROM nvidia/cuda:11.7.1-cudnn8-devel-ubuntu20.04
ENV LANG=C.UTF-8 MODE="a b"
RUN apt-get update && apt-get install -y --no-install-recommends \\
    git \\
    g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /work
RUN pip install --no-cache-dir torch==1.13.1+cu117 "numpy<2" --extra-index-url https://example.org/whl/cu117
COPY . /work
RUN git clone https://example.org/a/b && make -C b
USER nobody
CMD ["python", "train.py"]
```
"""


def test_a_dockerfile_is_its_last_stage() -> None:
    (found,) = find(DOCKERFILE)
    assert (found.kind, found.first, found.last) == ("dockerfile", 2, 14)
    assert found.image == "nvidia/cuda:11.7.1-cudnn8-devel-ubuntu20.04"
    assert dict(found.axes) == {"cuda": "11.7.1", "cudnn": "8", "os": "ubuntu-20.04"}
    assert found.apt == ("git", "g++")
    assert found.requirements == ("torch==1.13.1+cu117", "numpy<2")
    assert found.pip_options == ("--extra-index-url https://example.org/whl/cu117",)
    assert found.env == {"LANG": "C.UTF-8", "MODE": "a b"}
    assert found.options == {"command": '["python", "train.py"]'}
    assert found.setup == ("make -C b",)
    assert found.notes == ("the Dockerfile uses files that the report does not have: COPY . /work",)


def test_a_docker_run_line() -> None:
    text = """\
$ sudo docker run --rm -it --gpus all --shm-size=8g -e A=b -e "C=d e" -v $PWD:/w \\
    paddlepaddle/paddle:2.5.1-gpu-cuda11.2-cudnn8.2-trt8.0 bash -c 'python x.py'
"""
    (found,) = find(text)
    assert (found.kind, found.last) == ("docker run", 2)
    assert dict(found.axes) == {"cuda": "11.2", "cudnn": "8.2"}
    assert dict(found.packages) == {"paddlepaddle-gpu": "2.5.1"}
    assert found.env == {"A": "b", "C": "d e"}
    assert found.options == {"gpus": "all", "shm_size": "8g", "command": "bash -c python x.py"}


@pytest.mark.parametrize(
    ("image", "axes"),
    [
        ("python:3.9-slim-bullseye", "python=3.9 os=debian-11"),
        ("ubuntu:22.04", "os=ubuntu-22.04"),
        ("pytorch/pytorch:2.2.0-cuda12.1-cudnn8-devel", "cuda=12.1 cudnn=8"),
        ("registry.example.org:5000/nvidia/cuda", ""),
        ("example.org/osgeo/thing:ubuntu-small-3.7.2", ""),
        ("gcc:12.2", "gcc=12.2"),
    ],
)
def test_names_of_images(image: str, axes: str) -> None:
    (found,) = find(f"docker run {image} true\n")
    assert found.image == image
    assert " ".join(f"{name}={value}" for name, value in found.axes.items()) == axes


def test_sql_and_prose_are_not_a_dockerfile() -> None:
    assert find("SELECT a\nFROM users\nWHERE b\n") == []
    assert find("FROM my point of view\n") == []


def test_output_of_pip_about_installed_packages() -> None:
    text = """\
Requirement already satisfied: torch in /some/where/site-packages (2.3.0+cpu)
Requirement already satisfied: filelock<4,>=3 in /some/where/site-packages (from torch) (3.13.1)
"""
    (found,) = find(text)
    assert dict(found.packages) == {"torch": "2.3.0+cpu", "filelock": "3.13.1"}


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("gcc (Ubuntu 7.4.0-1ubuntu1~18.04.1) 7.4.0", "ubuntu-18.04"),
        ("gcc (Debian 12.2.0-14) 12.2.0", "debian-12"),
        ("ldd (Ubuntu GLIBC 2.35-0ubuntu3.1) 2.35", "ubuntu-22.04"),
        ("ldd (Debian GLIBC 2.31-13+deb11u5) 2.31", "debian-11"),
        ("gcc (GCC) 8.2.0", ""),
        ("gcc (Ubuntu 8.4.0-3ubuntu2) 8.4.0", ""),  # in two releases
        ("gcc (Uos 8.3.0.3-3+rebuild) 8.3.0", ""),
    ],
)
def test_the_release_for_which_a_package_was_built(text: str, release: str) -> None:
    assert wording.packaged(text) == release


@pytest.mark.parametrize(
    ("row", "words"), [({}, "'starts'"), ({"starts": "("}, r"missing \)"), ({"starts": "a", "blanks": "b"}, "'b'")]
)
def test_a_wrong_row_is_named(row: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=rf"environments\.yaml, programs, frob: .*{words}"):
        programs._program({"kind": "frob", **row})
