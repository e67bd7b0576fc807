# Links what NVIDIA's wheels hold below folder $1 into the tree that everything expects at /usr/local/cuda.
set -e
cuda=/usr/local/cuda
mkdir -p "$cuda/bin" "$cuda/lib64" "$cuda/include" "$cuda/nvvm"
[ -e "$cuda/lib" ] || ln -s lib64 "$cuda/lib"
find "$1" -name __init__.py -delete
for part in "$1"/nvidia/*; do
    for pair in bin:bin lib:lib64 include:include nvvm:nvvm; do
        [ ! -d "$part/${pair%%:*}" ] || cp -rsf "$part/${pair%%:*}/." "$cuda/${pair##*:}/"
    done
done
# The wheels lack the plain names that linkers and frameworks look for.
for library in "$cuda"/lib64/*.so.*; do
    plain="${library%%.so.*}.so"
    [ ! -e "$library" ] || [ -e "$plain" ] || ln -s "$(basename "$library")" "$plain"
done
