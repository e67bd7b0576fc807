# Gives the distribution's nvidia-cuda-toolkit the shape that everything expects at /usr/local/cuda.
set -e
cuda=/usr/local/cuda
own=/usr/lib/nvidia-cuda-toolkit
mkdir -p "$cuda/bin"
for tool in nvcc ptxas fatbinary nvlink bin2c cuobjdump nvdisasm cuda-gdb nvprof; do
    [ ! -e "/usr/bin/$tool" ] || ln -s "/usr/bin/$tool" "$cuda/bin/$tool"
done
ln -s /usr/include "$cuda/include"
ln -s "$(dirname "$(ls /usr/lib/*/libcudart.so | head -n 1)")" "$cuda/lib64"
ln -s lib64 "$cuda/lib"
[ ! -d "$own/nvvm" ] || ln -s "$own/nvvm" "$cuda/nvvm"
[ ! -d "$own/libdevice" ] || ln -s "$own/libdevice" "$cuda/libdevice"
