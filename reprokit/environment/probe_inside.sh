# Runs inside an image and prints what it is, one section per fact: "##name", then the tool's own words.
# POSIX sh and no more: the image may lack everything else. What measures the axes follows: see axes/.
section() { printf '##%s\n' "$1"; }

section kernel; uname -s -r -m 2>/dev/null
section glibc; getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1
if command -v nvidia-smi >/dev/null 2>&1; then
    section gpu
    nvidia-smi --query-gpu=index,uuid,name,memory.total,compute_cap,driver_version --format=csv,noheader,nounits 2>&1
fi
section visible; printf '%s\n' "${CUDA_VISIBLE_DEVICES-None}"
if command -v dpkg-query >/dev/null 2>&1; then
    section apt; dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' 2>/dev/null
fi
if command -v rpm >/dev/null 2>&1; then
    section rpm; rpm -qa --queryformat '%{NAME} %{VERSION}-%{RELEASE}\n' 2>/dev/null
fi
