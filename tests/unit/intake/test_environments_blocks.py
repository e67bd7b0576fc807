"""Blocks of ``key: value`` lines, as programs print them and as people type them."""

from __future__ import annotations

from reprokit.intake.environments import find

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


def test_paddles_block_becomes_axes_packages_and_its_own_keys() -> None:
    (found,) = find(PADDLE)
    assert (found.kind, found.first, found.last) == ("paddle", 4, 15)
    assert dict(found.axes) == {"python": "3.9.7", "cuda": "11.2", "cudnn": "8.1", "gcc": "9.4.0"}
    assert dict(found.packages) == {"paddleseg": "2.7.0", "paddlepaddle-gpu": "2.3.2", "opencv-python": "4.6.0"}
    assert found.gpus == ("Tesla P40", "Tesla P40")
    assert found.values["GPU"] == "['GPU 0: Tesla P40', 'GPU 1: Tesla P40']"
    assert list(found.values)[:2] == ["platform", "Python"]
    assert (found.system, found.glibc, found.notes) == ("linux", "2.31", ())
