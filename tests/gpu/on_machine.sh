#!/usr/bin/env bash
# Runs all that needs an NVIDIA GPU on a machine without network, and leaves what was seen in five files.
#
#   make gpu-wheels                      here, with a network: what the machine lacks, in build/gpu-wheels
#   tests/gpu/on_machine.sh RESULTS      there, in a copy of the checkout with that folder; [tests|cases|all]
#
# GPU_PYTHON: the Python that has torch (python3). GPU_CASES: which cases. GPU_TRIALS: trials of each cell (2).
set -u -o pipefail
results=${1:?usage: tests/gpu/on_machine.sh RESULTS [tests|cases|all]}
part=${2:-all}
cd "$(dirname "$0")/../.." || exit
mkdir -p "$results" build
results=$(cd "$results" && pwd)
wheels=$PWD/build/gpu-wheels
own=$PWD/build/gpu-venv
host=${GPU_PYTHON:-python3}
export PYTHONPATH=$PWD PYTHONUNBUFFERED=1 PIP_NO_INDEX=1 PIP_FIND_LINKS=$wheels PIP_DISABLE_PIP_VERSION_CHECK=1

facts() {
    uname -srm
    grep PRETTY_NAME /etc/os-release
    nvidia-smi -q || echo "no nvidia-smi"
    ls -l /dev/nvidia* || echo "no devices of NVIDIA"
    ldconfig -p | grep -E 'libcuda|libnvidia-ml' || echo "ldconfig knows no driver library; LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}"
    for program in docker podman crun runc nvidia-ctk nvcc uv; do command -v "$program" || echo "no $program"; done
    "$host" -VV
    "$host" -c 'import sys, torch; print(sys.prefix, torch.__version__, torch.cuda.is_available())'
}

prepare() {
    if [ ! -x "$own/bin/python" ]; then
        "$host" -m venv --without-pip "$own" &&
            "$host" -m pip --python "$own/bin/python" install --quiet "$wheels"/*.whl || return
    fi
}

facts > "$results/facts.txt" 2>&1
prepare > "$results/prepare.log" 2>&1 || { cat "$results/prepare.log"; exit 1; }
status=0
if [ "$part" != cases ]; then
    timeout 400 "$own/bin/python" -m pytest tests/gpu -p no:cacheprovider -rA -s --durations=20 > "$results/tests.log" 2>&1 || status=1
    tail -n 3 "$results/tests.log"
fi
if [ "$part" != tests ]; then
    torch=$("$host" -c 'import torch; print(torch.__version__.partition("+")[0])' 2> /dev/null)
    prefix=$("$host" -c 'import sys; print(sys.prefix)')
    export REPROKIT_HOST_PACKAGES="torch=$prefix" REPROKIT_STORE=$PWD/build/gpu-store REPROKIT_CONFIRM=never
    rm -rf "$REPROKIT_STORE"
    # shellcheck disable=SC2086 # several words
    "$own/bin/python" -m tests.gpu.cases "$results" --torch "$torch" --trials "${GPU_TRIALS:-2}" ${GPU_CASES:-cases/gpu_*.yaml cases/nccl_rank_missing.yaml} || status=1
    tar -C "$REPROKIT_STORE" -czf "$results/records.tar.gz" . 2> /dev/null
fi
exit $status
