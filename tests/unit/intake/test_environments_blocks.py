"""Blocks of ``key: value`` lines, as programs print them and as people type them."""

from __future__ import annotations

import pytest

from reprokit.intake.environments import find_blocks

PADDLE = """\
## 环境

```bash
platform: Linux-5.4.0-42-generic-x86_64-with-glibc2.31
Python: 3.9.7 (default, Sep 16 2021, 13:09:58) [GCC 7.5.0]
Paddle compiled with cuda: True
NVCC: Build cuda_11.2.r11.2/compiler.29618528_0
cudnn: 8.1
GPUs used: 2
CUDA_VISIBLE_DEVICES: None
GPU: ['GPU 0: Tesla P40', 'GPU 1: Tesla P40']
GCC: gcc (Ubuntu 9.4.0-1ubuntu1~20.04.1) 9.4.0
PaddleSeg: 2.7.0
PaddlePaddle: 2.3.2
OpenCV: 4.6.0
```
"""

COLLECT_ENV = """\
Collecting environment information...
PyTorch version: 2.0.1+cu117
Is debug build: False
CUDA used to build PyTorch: 11.7
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.2 LTS (x86_64)
GCC version: (Ubuntu 11.3.0-1ubuntu1~22.04) 11.3.0
Clang version: Could not collect
Libc version: glibc-2.35

Python version: 3.10.6 (main, Mar 10 2023, 10:55:28) [GCC 11.3.0] (64-bit runtime)
Python platform: Linux-5.15.0-60-generic-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: 12.0.76
GPU models and configuration:
GPU 0: Tesla T10
GPU 1: Tesla T10

Nvidia driver version: 525.60.13
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.8.7.0
/usr/lib/x86_64-linux-gnu/libcudnn_ops_infer.so.8.7.0
HIP runtime version: N/A

CPU:
Architecture:                    x86_64
CPU op-mode(s):                  32-bit, 64-bit
Byte Order:                      Little Endian
CPU(s):                          8
Vendor ID:                       SomeVendor
Model name:                      Some CPU @ 2.00GHz
L1d cache:                       256 KiB
Vulnerability Meltdown:          Mitigation; PTI

Versions of relevant libraries:
[pip3] numpy==1.24.1
[pip3] torch==2.0.1+cu117
[conda] torchvision               0.15.2+cu117             pypi_0    pypi
[conda] mkl                       2021.4.0           h06a4308_640
"""

OPENMMLAB = """\
System environment:
    sys.platform: linux
    Python: 3.7.12 (default, Oct 12 2021) [GCC 10.3.0]
    CUDA available: True
    GPU 0,1,2: NVIDIA TITAN V
    CUDA_HOME: /usr/local/cuda-11.0
    NVCC: Cuda compilation tools, release 11.1, V11.1.74
    GCC: gcc (GCC) 6.5.0
    PyTorch: 1.9.0
    PyTorch compiling details: PyTorch built with:
  - GCC 7.3
  - C++ Version: 201402
  - CUDA Runtime 10.2
  - CuDNN 7.6.5
  - Build settings: BLAS_INFO=mkl, CUDA_VERSION=10.2

    TorchVision: 0.10.0
    OpenCV: 4.5.4
    MMCV: 1.4.0
    MMCV Compiler: GCC 7.3
    MMCV CUDA Compiler: 10.2
"""


def test_paddles_block_becomes_axes_packages_and_its_own_keys() -> None:
    (found,) = find_blocks(PADDLE)
    assert (found.kind, found.first, found.last) == ("paddle", 4, 15)
    assert dict(found.axes) == {
        "python": "3.9.7",
        "cuda": "11.2",
        "cudnn": "8.1",
        "gcc": "9.4.0",
        "os": "ubuntu-20.04",
    }
    assert dict(found.packages) == {"paddleseg": "2.7.0", "paddlepaddle-gpu": "2.3.2", "opencv-python": "4.6.0"}
    assert found.gpus == ("Tesla P40", "Tesla P40")
    assert found.values["GPU"] == "['GPU 0: Tesla P40', 'GPU 1: Tesla P40']"
    assert list(found.values)[:2] == ["platform", "Python"]
    assert found.system == "linux"
    assert found.notes == ()


def test_two_consecutive_blocks_are_two_environments() -> None:
    body = PADDLE.split("```bash\n")[1].split("```")[0]
    first, second = find_blocks("```\n" + body + body.replace("11.2", "11.6") + "```\n")
    assert (first.axes["cuda"], second.axes["cuda"]) == ("11.2", "11.6")
    assert (first.last, second.first) == (13, 14)


def test_pytorchs_block_with_what_it_was_built_for_beside_the_toolkit() -> None:
    (found,) = find_blocks(COLLECT_ENV)
    assert (found.kind, found.first, found.last) == ("collect_env", 2, 40)
    assert dict(found.axes) == {
        "cuda": "12.0.76",
        "os": "ubuntu-22.04",
        "gcc": "11.3.0",
        "python": "3.10.6",
        "cudnn": "8.7.0",
    }
    assert dict(found.packages) == {
        "torch": "2.0.1+cu117",
        "numpy": "1.24.1",
        "torchvision": "0.15.2+cu117",
    }
    assert found.gpus == ("Tesla T10", "Tesla T10")
    assert found.driver == "525.60.13"
    assert found.notes == ("cuda 12.0.76 (CUDA runtime version: 12.0.76), but 11.7 (PyTorch version: 2.0.1+cu117)",)
    # Thirty lines on the processor are the host's; its name is kept.
    assert "Vulnerability Meltdown" not in found.values
    assert found.values["Model name"] == "Some CPU @ 2.00GHz"


def test_without_a_toolkit_the_axis_is_what_the_framework_was_built_for() -> None:
    (found,) = find_blocks(
        COLLECT_ENV.replace("CUDA runtime version: 12.0.76", "CUDA runtime version: Could not collect")
    )
    assert found.axes["cuda"] == "11.7"
    assert found.notes == ()


def test_a_single_version_of_cuda_and_cudnn_is_cudas() -> None:
    (found,) = find_blocks("- OS: Linux\n- Python version: 3.7\n- CUDA/cuDNN version: 10.1\n")
    assert dict(found.axes) == {"python": "3.7", "cuda": "10.1"}
    (found,) = find_blocks("- OS: Linux\n- CUDA/cuDNN version: 10.0.130-2 /   7.3.0-1\n")
    assert dict(found.axes) == {"cuda": "10.0.130", "cudnn": "7.3.0"}


def test_assignments_of_a_program_are_not_requirements() -> None:
    assert find_blocks("```\nwobbles = 3\ndepth=3\nheight = 5\nbatch=2\n```\n") == []


def test_openmmlabs_block_with_its_compiling_details() -> None:
    (found,) = find_blocks(OPENMMLAB)
    assert (found.kind, found.first, found.last) == ("openmmlab", 1, 21)
    assert dict(found.axes) == {"python": "3.7.12", "cuda": "11.1.74", "gcc": "6.5.0", "cudnn": "7.6.5"}
    assert found.gpus == ("NVIDIA TITAN V",)
    assert dict(found.packages) == {
        "torch": "1.9.0",
        "torchvision": "0.10.0",
        "opencv-python": "4.5.4",
        "mmcv": "1.4.0",
    }
    nvcc = "NVCC: Cuda compilation tools, release 11.1, V11.1.74"
    assert found.notes == (
        f"cuda 11.1.74 ({nvcc}), but 11.0 (CUDA_HOME: /usr/local/cuda-11.0)",
        f"cuda 11.1.74 ({nvcc}), but 10.2 (PyTorch compiling details: CUDA Runtime 10.2)",
    )
    assert found.values["PyTorch compiling details"].splitlines()[3] == "CUDA Runtime 10.2"


def test_windows_and_macos_are_noted_and_not_an_axis() -> None:
    (found,) = find_blocks("platform: Windows-10-10.0.19044-SP0\nPython: 3.8.1\nPaddlePaddle: 2.4.0\ncudnn: 8.2\n")
    assert (found.system, "os" in found.axes, found.axes["python"]) == ("windows", False, "3.8.1")
    assert found.notes == ("the report is from Windows: a container runs Linux, so its system is not an axis",)
    (found,) = find_blocks("- OS: macOS 13.4 (arm64)\n- Python: 3.11\n- torch: 2.1.0\n")
    assert (found.system, dict(found.axes)) == ("macos", {"python": "3.11"})
    (found,) = find_blocks(
        "- Platform: Linux-5.15.90.1-microsoft-standard-WSL2-x86_64-with-glibc2.35\n- Python: 3.10.12\n"
    )
    assert (found.system, found.notes) == ("linux", ("Linux under Windows (WSL)",))


TYPED = [
    ("环境：Ubuntu 20.04，Python 3.8，CUDA 11.2，cuDNN 8.1", "os=ubuntu-20.04 python=3.8 cuda=11.2 cudnn=8.1", ""),
    (
        "**操作系统**：Ubuntu 18.04\n**Python 版本**：3.7.9\n**PaddlePaddle版本**：2.1.0",
        "os=ubuntu-18.04 python=3.7.9",
        "paddlepaddle=2.1.0",
    ),
    (
        (
            "### PaddlePaddle version\n\n2.5.0\n\n### 操作系统\n\nUbuntu 22.04\n\n"
            "### CUDA/cuDNN version\n\n11.7/8.4\n\n### GPU model\n\n_No response_\n"
        ),
        "os=ubuntu-22.04 cuda=11.7 cudnn=8.4",
        "paddlepaddle=2.5.0",
    ),
    (
        "My env is:\n  ubuntu 16.04.3\n  gcc 5.4\n  python 3.6.9\n  pytorch 1.1\n  cuda9.0\n",
        "os=ubuntu-16.04 gcc=5.4 python=3.6.9 cuda=9.0",
        "torch=1.1",
    ),
    ("**Ubuntu 22.04, Torch 2.2+cu121, Cuda 12.1**", "os=ubuntu-22.04 cuda=12.1", "torch=2.2+cu121"),
    (
        "| 项目 | 值 |\n|--|--|\n| OS | Debian 12 |\n| **Python** | 3.11.2 |\n| `CUDA` | 12.1 |",
        "os=debian-12 python=3.11.2 cuda=12.1",
        "",
    ),
    (
        "paddlepaddle-gpu==1.8.5.post97\npython ==3.6\ncuda==10.1",
        "python=3.6 cuda=10.1",
        "paddlepaddle-gpu=1.8.5.post97",
    ),
    # Forms that were not filled in, and what looks like an environment and is not one.
    ("- OS: [e.g., Ubuntu 16.04.6]\n- GCC [e.g., 5.4.0]\n- PyTorch version [e.g., 1.1.0]\n", "", ""),
    ("a. 具体操作系统，如windows\nb. Python版本号，如Python38\nc. CUDA/cuDNN版本，如CUDA10.2/cuDNN 7.3.1等\n", "", ""),
    ("- PyTorch Version (e.g., 1.0):\n- OS (e.g., Linux):\n- Python version:\n- CUDA/cuDNN version:\n", "", ""),
    ("1. install it with `pip install torch==1.9.0+cu111 torchvision==0.10.0+cu111 torchaudio==0.9.0`\n", "", ""),
    ("```yaml\ncuda: 0\ngpu: 1\nbatch_size: 4\n```", "", ""),
    ("/usr/lib/python3/dist-packages/paddle/executor.py:1070: UserWarning: numpy", "", ""),
]


@pytest.mark.parametrize(("text", "axes", "packages"), TYPED)
def test_what_people_type(text: str, axes: str, packages: str) -> None:
    found = find_blocks(text)
    axes_found = {name: value for one in found for name, value in one.axes.items()}
    assert " ".join(f"{name}={value}" for name, value in axes_found.items()) == axes
    named = {name: value for one in found for name, value in one.packages.items()}
    assert " ".join(f"{name}={value}" for name, value in sorted(named.items())) == packages


def test_programs_that_list_packages_as_keys() -> None:
    text = """\
INSTALLED VERSIONS
------------------
commit           : 0123abc
python           : 3.10.4.final.0
python-bits      : 64
OS               : Linux
Version          : #1 SMP Debian 5.10
machine          : x86_64

pandas           : 1.5.0
numpy            : 1.23.3
pytz             : 2022.4
Cython           : None
"""
    (pandas,) = find_blocks(text)
    assert (pandas.kind, dict(pandas.axes)) == ("pandas", {"python": "3.10.4"})
    assert dict(pandas.packages) == {"pandas": "1.5.0", "numpy": "1.23.3", "pytz": "2022.4"}
    text = """\
- `transformers` version: 4.28.0
- Platform: Linux-5.15.0-x86_64-with-glibc2.31
- Python version: 3.9.16
- PyTorch version (GPU?): 1.13.1+cu116 (True)
- Tensorflow version (GPU?): not installed (NA)
"""
    (hub,) = find_blocks(text)
    assert (hub.kind, dict(hub.axes)) == ("transformers", {"python": "3.9.16", "cuda": "11.6"})
    assert dict(hub.packages) == {"transformers": "4.28.0", "torch": "1.13.1+cu116"}


DETECTRON2 = """\
----------------------  ----------------------------------
sys.platform            linux
Python                  3.7.8 (default, Jul 20 2020) [GCC 7.3.0]
numpy                   1.18.5
detectron2              0.5 @/some/where/detectron2
detectron2._C           not built correctly
Compiler                c++ (Ubuntu 9.3.0-10ubuntu2) 9.3.0
CUDA compiler           Cuda compilation tools, release 10.2, V10.2.300
DETECTRON2_ENV_MODULE   <not set>
PyTorch                 1.9.1+cu111 @/some/where/torch
GPU available           Yes
GPU 0,1,2,3             Tesla M60 (arch=5.2)
Driver version          460.73.01
CUDA_HOME               /usr/local/cuda
cv2                     4.5.3
----------------------  ----------------------------------
PyTorch built with:
  - GCC 7.5
  - CUDA Runtime 11.1
  - CuDNN 8.0.5
"""


def test_detectron2s_columns_and_what_its_extension_was_built_with() -> None:
    (found,) = find_blocks(DETECTRON2)
    assert found.kind == "detectron2"
    assert dict(found.axes) == {"python": "3.7.8", "gcc": "9.3.0", "cuda": "10.2.300", "cudnn": "8.0.5"}
    assert dict(found.packages) == {
        "numpy": "1.18.5",
        "detectron2": "0.5",
        "torch": "1.9.1+cu111",
        "opencv-python": "4.5.3",
    }
    assert (len(found.gpus), found.driver) == (1, "460.73.01")
    text = DETECTRON2.replace("c++ (Ubuntu 9.3.0-10ubuntu2) 9.3.0", "GCC 7.3")
    (found,) = find_blocks(text.replace("Cuda compilation tools, release 10.2, V10.2.300", "CUDA 11.1"))
    assert ("gcc" in found.axes, found.axes["cuda"], found.notes) == (False, "11.1", ())


def test_a_layout_with_rules_and_titles_between_its_parts() -> None:
    text = """\
==============================
        System Info
==============================
OS                           : Ubuntu 24.04.1 LTS (x86_64)
GCC version                  : (Ubuntu 13.2.0-23ubuntu4) 13.2.0
Libc version                 : glibc-2.39

==============================
       PyTorch Info
==============================
PyTorch version              : 2.5.0+cpu
Is debug build               : False
CUDA used to build PyTorch   : None

==============================
      Python Environment
==============================
Python version               : 3.12.4 (main) [GCC 13.2.0] (64-bit runtime)

==============================
Versions of relevant libraries
==============================
[pip3] numpy==2.1.0
[conda] Could not collect
"""
    (found,) = find_blocks(text)
    assert found.kind == "collect_env"
    assert dict(found.axes) == {"os": "ubuntu-24.04", "gcc": "13.2.0", "cuda": "none", "python": "3.12.4"}
    assert dict(found.packages) == {"torch": "2.5.0+cpu", "numpy": "2.1.0"}


def test_an_old_windows_linux_and_an_omitted_host() -> None:
    (found,) = find_blocks("- Platform: Linux-4.4.0-18362-Microsoft-x86_64-with-glibc2.29\n- Python version: 3.8.5\n")
    assert (found.system, found.notes) == ("linux", ("Linux under Windows (WSL)",))
    text = (
        "jax:    0.4.20\njaxlib: 0.4.20\nnumpy:  1.26.0\npython: 3.10.9 (main) [GCC 11.2.0]\n"
        "platform: uname_result(system='Linux', node='box42', release='5.4', version='#1', machine='x86_64')\n"
    )
    (found,) = find_blocks(text)
    assert (found.kind, "box42" in str(found)) == ("jax", False)
    (found,) = find_blocks("Static hostname: box42\nOperating System: Debian GNU/Linux 12 (bookworm)\nPython: 3.11\n")
    assert (found.axes["os"], "box42" in str(found)) == ("debian-12", False)


def test_a_release_candidate_is_written_as_the_index_has_it() -> None:
    (found,) = find_blocks("- TensorFlow version: 2.0.0-rc0\n- Python: 3.7\n")
    assert found.packages["tensorflow"] == "2.0.0rc0"


@pytest.mark.parametrize("line", ["CUDA：11.7，cuDNN：8.4，GCC：9.3", "CUDA: 11.7, cuDNN: 8.4; GCC: 9.3"])
def test_several_pairs_in_one_line(line: str) -> None:
    (found,) = find_blocks(f"OS: Ubuntu 20.04\n{line}\n")
    assert dict(found.axes) == {"os": "ubuntu-20.04", "cuda": "11.7", "cudnn": "8.4", "gcc": "9.3"}


def test_the_version_of_a_library_that_a_program_lists_is_not_a_package() -> None:
    text = (
        "```\npython: 3.9.7 (default) [GCC 7.5.0]\nexecutable: /usr/bin/python\nmachine: Linux-5.4.0-x86_64\n"
        "numpy: 1.23.5\nwobble: 1.2.3\n\nprefix: libopenblas\nversion: 0.3.20\n```\n"
    )
    (found,) = find_blocks(text)
    assert dict(found.packages) == {"numpy": "1.23.5", "wobble": "1.2.3"}
