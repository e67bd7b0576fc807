# ruff: noqa: E501 - a text is a row of a table
"""Texts of reports that hold nothing private, and look as if: what redaction must leave as it is."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__)
REPOSITORY = HERE.parents[3]
HEX = "0123456789abcdef"
SEEDS = (31_007, 55_021)
LINES = 12
"""Lines of a golden log, a case or a page that are one text."""

LIST_OF_PACKAGES = [
    "torch",
    "numpy",
    "paddlepaddle",
    "transformers",
    "tokenizers",
    "nvidia-cublas-cu12",
    "onnx",
    "mmcv",
    "vllm",
    "secretstorage",
    "keyring",
]
GPUS = [
    "NVIDIA A100-SXM4-80GB",
    "Tesla V100-SXM2-32GB",
    "NVIDIA GeForce RTX 4090",
    "H800",
    "Ascend 910B",
    "RTX A6000",
    "GeForce GTX 1080 Ti",
]

TEMPLATES: tuple[tuple[str, ...], tuple[str, ...]] = (
    (
        "{package}=={version}",
        "cuDNN {quad}, TensorRT {quad}, NCCL {version}",
        "libcublas.so.{quad} => /usr/local/cuda/lib64/libcublas.so.{quad}",
        "commit {hex40}",
        "HEAD is now at {hex7} Fix the token of the tokenizer",
        "    --hash=sha256:{hex64} \\",
        "FROM python:3.11@sha256:{hex64}",
        "sha256:{hex64}: Pull complete",
        "*** Aborted at {seconds} (unix time) try \"date -d @{seconds}\"",
        "PC: @ 0x{hex12} paddle::framework::OperatorWithKernel",
        "request_id={uuid} status=200",
        "data = base64.b64decode('{base64}')",
        "tokenizer = AutoTokenizer.from_pretrained('bert-base-{number}', use_auth_token=True)",
        "Listening on http://127.0.0.1:{port}/ and http://0.0.0.0:{port}/",
        "MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE=8",
        "see https://example.com/docs/{hex7}/index.html or mail to the list",
        "{gpu}, driver 535.104.05, {number}MiB / 81920MiB",
        "| 0  {gpu}  On | 00000000:{pci}:00.0 Off | 0 |",
        "/usr/local/cuda-12.1/bin/nvcc -gencode arch=compute_80,code=sm_80 -o x x.cu",
        '  File "/usr/local/lib/python3.11/site-packages/torch/nn/modules/module.py", line {number}, in _call_impl',
        "RuntimeError: Expected {number} tokens, got password of length {number}",
        "The password is wrong, please try again.",
        "密码错误，请重试",
        "请先设置密码再登录",
        "在 {gpu} 上训练，显存 {number}MB，batch size 16",
        "torch.cuda.OutOfMemoryError: Tried to allocate {bytes} bytes",
        "free: {bytes}, used: {bytes}, total: {bytes}",
        "step {number} loss 0.{number} lr 1e-5 tokens/s {number}",
        "max_new_tokens={number}, eos_token_id=2, pad_token='<pad>', num_key_value_heads=8",
        "for key, value in state_dict.items(): print(key, value.shape)",
        "KeyError: 'model.layers.{number}.self_attn.key_proj.weight'",
        "user = getpass.getuser(); host = socket.gethostname()",
        "password = os.environ['DB_PASSWORD']",
        "api_key: Optional[str] = None",
        "def login(user: str, password: str) -> Token:",
        "ncclUniqueId 0x{hex12}, comm 0x{hex12} rank 0 nranks 8",
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE + 0x64 (0x{hex12})",
        "frame #3: c10::Error::Error(c10::SourceLocation, std::string) + 0x{hex7}",
        "ampere_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_nn {number}us",
        "Epoch [{number}/100], Step [{number}/{number}], ETA 1:02:03",
        "git@github.com:owner/name.git {hex40}",
        "https://github.com/owner/name/blob/{hex40}/src/x.py#L{number}",
        "ssh-keygen -t ed25519 and then add the public key to the server",
        "The token is {number} characters long; the secret is to use a smaller batch",
        "root:x:0:0:root:/root:/bin/bash",
        "nvidia-smi -L shows one GPU",
        "Serial number of the run: none",
        "phone home is off; call to action; QQ plot of residuals",
        "{date} {time} INFO worker 12 pid {number} started",
        "docker run --rm -it --gpus all -v $PWD:/w -p {port}:{port} nvidia/cuda:12.1.1-cudnn8-devel-ubuntu22.04",
        "export PASSWORD=$(cat file) TOKEN=\"$HF_TOKEN\"",
        "ENV DB_PASSWORD=${{DB_PASSWORD}}",
        "secrets: inherit",
        "ValueError: invalid literal for int() with base 10: '{hex7}'",
        "name: conda-{hex7}, build: py311h{hex7}_0",
    ),
    (
        "Successfully installed {package}-{version} {package}-{version}",
        "cuda_{quad}_linux.run --silent --toolkit",
        "libcudnn8_{quad}-1+cuda11.8_amd64.deb",
        "ii  libcublas-11-8  {quad}-1  amd64",
        "Using cached {package}-{version}-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl (1.2 MB)",
        "index {hex7}..{hex7} 100644",
        "Merge: {hex7} {hex7}",
        "sha256sum: {hex64}  model.bin",
        "md5: {hex32}  data.zip",
        "etag: \"{hex32}\"",
        "digest=sha256:{hex64}",
        "Container ID {hex12}, image ID {hex12}",
        "[rank0]: 0x{hex12} <unknown function>",
        "trace_id: {uuid}",
        "run uuid {uuid} took {number} s",
        "\"data\": \"{base64}\"",
        "<img src=\"data:image/png;base64,{base64}\">",
        "tokens = [{number}, {number}, {number}]",
        "torchrun --nproc_per_node=8 --master_port={port} train.py --sort_key name",
        "http://localhost:{port}/docs and [::1]:{port}",
        "curl -X POST http://127.0.0.1:{port}/v1/completions -d '{{\"prompt\": \"x\", \"max_tokens\": {number}}}'",
        "someone@example.com is the address of the docs",
        "{gpu} ({number}MB), compute capability 8.0",
        "GPU 0: {gpu}",
        "CUDA_HOME=/usr/local/cuda LD_LIBRARY_PATH=/usr/local/cuda/lib64:/opt/conda/lib",
        '  File "/opt/conda/envs/py311/lib/python3.11/site-packages/vllm/engine/llm_engine.py", line {number}, in step',
        "tokenizers.exceptions: token not found; secret sauce: none",
        "If you forgot the password, reset it: the link is on the page.",
        "如果忘记密码，请联系管理员",
        "口令长度为 {number} 个字符",
        "手机端推理时间 {number} ms，微信小程序可用",
        "[2024-05-01 10:00:00] memory allocated {bytes}",
        "{bytes} {bytes} {bytes} {number}",
        "lr: 3e-4, grad_norm: 0.{number}, key_padding_mask: None",
        "attn = (query @ key.transpose(-2, -1)) * scale",
        "x@y = z if a@b else c",
        "assert token == tokens[{number}], 'unexpected token'",
        "os.getenv('API_KEY', '')",
        "access_token = response.json()['access_token']",
        "parser.add_argument('--password', default=None, help='the password of the server')",
        "_ZN6paddle9framework16AttrReaderIN5phi9DenseTensorEEC2EPKNS0_12OperatorBaseE",
        "volta_scudnn_128x64_relu_interior_nn_v1 {number} ns",
        "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<c10::Half>, at::detail::Array<char*, 1>>",
        "100%|##########| {number}/{number} [00:01<00:00, 99.{number}it/s]",
        "https://download.pytorch.org/whl/cu121/torch-{version}%2Bcu121-cp311-cp311-linux_x86_64.whl",
        "pip install git+https://github.com/owner/name@{hex40}",
        "https://storage.googleapis.com/bucket/model-{hex32}.bin",
        "user: root, group: root, mode 0644",
        "  key: value\n  sort: ascending",
        "Phone support is in version {version}; id card detection model v{version}",
        "序列号类型的字段不支持，机器学习代码",
        "lscpu: Model name: Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz, {number} MHz",
        "Host compiler: gcc {version}; target host: x86_64",
        "docker pull nvcr.io/nvidia/pytorch:23.10-py3",
        "--build-arg TOKEN --secret id=hf,env=HF_TOKEN",
        "echo $API_TOKEN | wc -c",
        "password: ${{{{ secrets.DB_PASSWORD }}}}",
        "password: <your password here>, token: YOUR_TOKEN, key: xxxxxx",
    ),
)  # fmt: skip


def _filled(template: str, rng: random.Random) -> str:
    def hexed(size: int) -> str:
        return "".join(rng.choices(HEX, k=size))

    def some(most: int) -> int:
        return rng.randint(1, most)

    return template.format(
        package=rng.choice(LIST_OF_PACKAGES),
        version=f"{some(12)}.{some(20)}.{some(9)}",
        quad=rng.choice(
            ["11.8.0.1", "8.9.7.29", "10.2.1.243", "10.1.0.105", "12.1.3.1", "10.2.89.1", "8.6.1.6", "10.0.130.1"]
        ),
        hex7=hexed(7),
        hex12=hexed(12),
        hex32=hexed(32),
        hex40=hexed(40),
        hex64=hexed(64),
        seconds=1_700_000_000 + some(9_999_999),
        uuid="-".join(hexed(size) for size in (8, 4, 4, 4, 12)),
        base64=base64.b64encode(rng.randbytes(60)).decode(),
        number=some(999),
        port=8000 + some(900),
        gpu=rng.choice(GPUS),
        pci=hexed(2).upper(),
        bytes=rng.choice([17179869184, 13421772800, 15032385536, some(10**11), some(10**9)]),
        date="2024-05-01",
        time="10:00:00,123",
    )


def _of_the_repository(half: int, rng: random.Random) -> Iterator[str]:
    """Pieces of cases, golden logs, pages and code: of each file one, of every other file."""
    places = (
        "cases/*.y*ml",
        "tests/golden/*.log",
        "tests/golden/builds/*.log",
        "docs/*.md",
        "reprokit/e*/**/*.py",
        "cases/**/*.md",
    )
    for place in places:
        files = sorted(path for path in REPOSITORY.glob(place) if not path.name.startswith("security"))
        for path in files[half::2]:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            at = rng.randrange(max(1, len(lines) - LINES))
            yield "\n".join(lines[at : at + LINES])


def clean(half: int) -> list[str]:
    """Clean texts of one half: lines of reports, and pieces of this repository's files."""
    rng = random.Random(SEEDS[half])
    made = [_filled(template, rng) for template in TEMPLATES[half] for _ in range(3)]
    return [*made, *_of_the_repository(half, rng)]
