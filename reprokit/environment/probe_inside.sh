# Runs inside an image and prints what it is, one section per fact: "##name", then the tool's own words.
# POSIX sh and no more: the image may lack everything else. $1 is the text of probe_inside.py.
section() { printf '##%s\n' "$1"; }

section kernel; uname -s -r -m 2>/dev/null
section os; cat /etc/os-release 2>/dev/null
section glibc; getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1
if command -v gcc >/dev/null 2>&1; then
    section gcc; gcc --version 2>&1 | head -n 1; gcc -dumpfullversion -dumpversion 2>/dev/null
fi
if command -v nvcc >/dev/null 2>&1; then section nvcc; nvcc --version 2>&1; fi
if command -v ptxas >/dev/null 2>&1; then section ptxas; ptxas --version 2>&1; fi
for home in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda; do
    if [ -r "$home/version.json" ]; then section cuda-version; cat "$home/version.json"; break; fi
done
section cudart
ls "${CUDA_HOME:-/usr/local/cuda}"/lib64/libcudart.so.* /usr/lib/*-linux-gnu/libcudart.so.* 2>/dev/null
for header in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include /usr/include/*-linux-gnu; do
    for name in cudnn_version.h cudnn_version_v9.h cudnn_version_v8.h cudnn.h; do
        if grep -q '^#define CUDNN_MAJOR' "$header/$name" 2>/dev/null; then
            section cudnn; grep -E '^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL)' "$header/$name"; break 2
        fi
    done
done
section cudnn-files
ls -L "${CUDA_HOME:-/usr/local/cuda}"/lib64/libcudnn.so.* /usr/lib/*-linux-gnu/libcudnn.so.* 2>/dev/null
if command -v nvidia-smi >/dev/null 2>&1; then
    section gpu
    nvidia-smi --query-gpu=index,uuid,name,memory.total,compute_cap,driver_version --format=csv,noheader,nounits 2>&1
fi
section visible; printf '%s\n' "${CUDA_VISIBLE_DEVICES-None}"
if command -v dpkg-query >/dev/null 2>&1; then
    section apt; dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' 2>/dev/null
fi
for name in python python3; do
    if command -v "$name" >/dev/null 2>&1; then section python; "$name" -c "$1" 2>&1; break; fi
done
section end
