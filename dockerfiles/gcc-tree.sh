# Makes the compiler below /opt/gcc, copied there from an image or made of conda's packages, the one of this image.
set -e
triplet="$(uname -m)-linux-gnu"
prefix=
for driver in /opt/gcc/bin/*-conda-linux-gnu-gcc; do
    [ ! -x "$driver" ] || { prefix="${driver##*/}"; prefix="${prefix%gcc}"; }
done
if [ -z "$prefix" ]; then
    # Headers that were mended for another release's C library hide those of this one; these three are GCC's own.
    for folder in /opt/gcc/lib/gcc/*/*/include-fixed; do
        [ ! -d "$folder" ] || find "$folder" -type f ! -name limits.h ! -name syslimits.h ! -name README -delete
    done
fi
for tool in gcc g++ cpp gcov gcc-ar gcc-nm gcc-ranlib; do
    [ -x "/opt/gcc/bin/$prefix$tool" ] || continue
    if [ -z "$prefix" ]; then
        ln -s "/opt/gcc/bin/$tool" "/usr/local/bin/$tool"
    else
        # Conda's compilers look for headers and libraries in a tree of their own alone; the image's come after those.
        after=
        case "$tool" in gcc | g++ | cpp)
            after="-idirafter /usr/include/$triplet -idirafter /usr/include"
            ;;
        esac
        printf '#!/bin/sh\nexec /opt/gcc/bin/%s%s %s "$@"\n' "$prefix" "$tool" "$after" > "/usr/local/bin/$tool"
        chmod 755 "/usr/local/bin/$tool"
    fi
    # The long name is what Python's headers call.
    ln -s "$tool" "/usr/local/bin/$triplet-$tool"
done
ln -s gcc /usr/local/bin/cc
ln -s g++ /usr/local/bin/c++
# What compiled programs load, and nothing else that lies beside it.
mkdir /opt/gcc/runtime
for library in gcc_s stdc++ gomp atomic quadmath gfortran itm ssp asan hwasan lsan tsan ubsan; do
    for file in /opt/gcc/lib/lib$library.so* /opt/gcc/lib64/lib$library.so*; do
        [ ! -e "$file" ] || case "$file" in *.py) ;; *) ln -sf "$file" /opt/gcc/runtime/ ;; esac
    done
done
# The newer libstdc++ serves programs of both compilers; the older one would break those of the newer.
newest=$(for file in /opt/gcc/runtime/libstdc++.so.6 "/usr/lib/$triplet/libstdc++.so.6"; do
    [ ! -e "$file" ] || printf '%s %s\n' "$(basename "$(readlink -f "$file")")" "$file"
done | sort -V | tail -n 1)
case "$newest" in */opt/gcc/*) place=000 ;; *) place=zzz ;; esac
echo /opt/gcc/runtime > "/etc/ld.so.conf.d/$place-gcc.conf"
ldconfig
