# Links what conda's packages of CUDA hold below folder $1 into the tree that everything expects at /usr/local/cuda.
set -e
cuda=/usr/local/cuda
mkdir -p "$cuda/bin" "$cuda/lib64" "$cuda/include"
[ -e "$cuda/lib" ] || ln -s lib64 "$cuda/lib"
for pair in lib:lib64 include:include; do
    [ ! -d "$1/${pair%%:*}" ] || cp -rsf "$1/${pair%%:*}/." "$cuda/${pair##*:}/"
done
# The toolkit has these in a folder of their own, conda's package beside the other libraries.
for pair in libnvvm.so:lib64 libdevice.10.bc:libdevice; do
    for file in "$1/lib/${pair%%:*}"*; do
        [ ! -e "$file" ] || { mkdir -p "$cuda/nvvm/${pair##*:}" && ln -sf "$file" "$cuda/nvvm/${pair##*:}/"; }
    done
done
