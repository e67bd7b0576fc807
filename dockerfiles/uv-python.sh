# Puts uv's Python of exactly version $1 below /opt/python, where it is also found by that version.
set -e
[ ! -s /run/secrets/uv_python ] || . /run/secrets/uv_python
export UV_PYTHON_CACHE_DIR=/root/.cache/uv/python
uv python install --no-config --no-bin --no-progress --install-dir /opt/python "$1" || {
    echo "error: uv cannot fetch Python $1 (why: see above); uv_python_mirror, uv_python_downloads and" \
        "python_providers of reprokit's configuration say where from" >&2
    exit 1
}
ln -s "/opt/python/cpython-$1-"* "/opt/python/$1"
