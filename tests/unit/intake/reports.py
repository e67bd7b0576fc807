"""Reports that tests read: invented ones, in the forms that real ones have."""

TWO_MACHINES = """\
## 周报

### 一、训练报错的验证

在下面这台机器上训练会报错：

```
platform: Linux-5.10.0-1.0.0.26-x86_64-with-glibc2.31
Python: 3.11.3 (main, May  2 2023, 09:01:11) [GCC 9.4.0]
Paddle compiled with cuda: True
NVCC: Build cuda_12.0.r12.0/compiler.1
cudnn: 8.9
GPUs used: 1
GPU: ['GPU 0: Tesla V100-SXM2-16GB', 'GPU 1: Tesla V100-SXM2-16GB']
GCC: gcc (GCC) 12.2.0
PaddleSeg: 0.0.0.dev0
PaddlePaddle: 0.0.0
OpenCV: 4.5.5
```

完整的报错：

```
some log line of the graph compiler
Traceback (most recent call last):
  File "/workspace/PaddleSeg/tools/train.py", line 7, in <module>
    main(args)
  File "/workspace/PaddleSeg/tools/train.py", line 6, in main
    train(
  File "/workspace/PaddleSeg/paddleseg/core/train.py", line 5, in train
    loss_list = loss_computation(
                ^^^^^^^^^^^^^^^^^
  File "/workspace/PaddleSeg/paddleseg/core/train.py", line 4, in loss_computation
    mixed_loss_list = loss_i(logits, labels)
  File "/usr/local/lib/python3.11/dist-packages/paddle/nn/layer/layers.py", line 1, in __call__
    return self.forward(*inputs, **kwargs)
  File "/workspace/PaddleSeg/paddleseg/models/losses/mixed_loss.py", line 3, in forward
    output = loss(logits, labels)
  File "/usr/local/lib/python3.11/dist-packages/paddle/nn/layer/layers.py", line 1, in __call__
    return self.forward(*inputs, **kwargs)
  File "/workspace/PaddleSeg/paddleseg/models/losses/rmi_loss.py", line 3, in forward
    loss = self.forward_sigmoid(a, b)
  File "/workspace/PaddleSeg/paddleseg/models/losses/rmi_loss.py", line 4, in forward_sigmoid
    x = self.rmi_lower_bound(a, b)
  File "/workspace/PaddleSeg/paddleseg/models/losses/rmi_loss.py", line 5, in rmi_lower_bound
    inv = self.inverse(cov)
  File "/workspace/PaddleSeg/paddleseg/models/losses/rmi_loss.py", line 6, in inverse
    return paddle.inverse(x)
  File "/usr/local/lib/python3.11/dist-packages/paddle/tensor/math.py", line 9, in inverse
    return _C_ops.inverse(x)
RuntimeError: (PreconditionNotMet) For batch [7]: U(3, 3) is zero, singular U. Please look at the matrix.
  [Hint: Expected info[i] == 0, but received info[i]:3 != 0:0.] (at ../paddle/x.cu:1)
```

### 二、另一台机器

1. 另一台机器的环境

```
platform: Linux-5.15.0-72-generic-x86_64-with-glibc2.27
Python: 3.11.2 (main, Feb  1 2023, 10:00:00) [GCC 7.5.0]
Paddle compiled with cuda: True
NVCC: Build cuda_11.8.r11.8/compiler.2
cudnn: 8.6
GPUs used: 1
GPU: ['GPU 0: Tesla V100-SXM2-16GB']
GCC: gcc (GCC) 8.2.0
PaddleSeg: 0.0.0.dev0
PaddlePaddle: 0.0.0
OpenCV: 4.5.5
```

2. 数据放在这里

```
PaddleSeg
├── data
│   ├── cityscapes
│   │   ├── leftImg8bit
│   │   │   ├── train
│   │   │   ├── val
│   │   ├── gtFine
│   │   │   ├── train
│   │   │   ├── val
```

3. 运行

```bash
export STRICT_MODE=0
export COST_MODEL=False
export MIN_GRAPH_SIZE=0
export SOT_LOG_LEVEL=3
export ENABLE_FALL_BACK=True

python3.11 tools/train.py \\
    --config configs/deeplabv3p/deeplabv3p_resnet50_os8_cityscapes_1024x512_80k_rmiloss.yml \\
    --iters 10 \\
    --save_interval 100 \\
    --batch_size 1 \\
    --num_workers 4 \\
    --save_dir output/deeplabv3p_resnet50_os8_cityscapes_1024x512_80k_rmiloss \\
    --opts to_static_training=true
```

这台机器上没有出现，先记为 CUDA 12 的问题。报错的地方：

```c++
    CHECK_EQ(info[i], 0, "singular U");
```
"""
"""The structure and the facts of the report behind cases/cityscapes_rmi.yaml, in other words."""

FORM = """\
### Search before asking

- [X] I have looked through the issues

### Describe the bug

<!-- please be short -->
The mean of an empty column is wrong since the last release, with `tablelib==4.2.0`.

### Code to reproduce

```python
import numpy as np

column = np.array([])
print(column.reshape(0, 3).T @ np.ones(4))
```

### Error

```pytb
Traceback (most recent call last):
  File "/home/somebody/bug.py", line 4, in <module>
    print(column.reshape(0, 3).T @ np.ones(4))
ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0 (size 4 is different from 0)
```

### Environment

_No response_
"""

CONSOLE = """\
It fails like this on my Mac:

$ pip install frobnicate==2.1
$ cd demo
$ FROB_MODE=fast frob-demo=1
$ OMP_NUM_THREADS=1 python demo.py --rate 3
loading ...
Traceback (most recent call last):
  File "demo.py", line 3, in <module>
    frobnicate.start()
  File "/Users/somebody/venv/lib/python3.10/site-packages/frobnicate/core.py", line 88, in start
    self._spin(speed)
  File "/Users/somebody/venv/lib/python3.10/site-packages/frobnicate/spin.py", line 7, in _spin
    raise SpinError(f"cannot spin at {speed}")
frobnicate.errors.SpinError: cannot spin at 120.5
"""
