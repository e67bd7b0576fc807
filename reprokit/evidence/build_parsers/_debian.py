"""Which package of Debian and Ubuntu brings a header, a library, a program or a module of CMake."""

from __future__ import annotations

from collections.abc import Sequence

_HEADERS: dict[str, tuple[str, ...]] = {
    "libasound2-dev": ("alsa/",),
    "libavcodec-dev": ("libavcodec/",),
    "libavformat-dev": ("libavformat/",),
    "libboost-dev": ("boost/",),
    "libbz2-dev": ("bzlib.h",),
    "libcairo2-dev": ("cairo.h", "cairo/"),
    "libcups2-dev": ("cups/",),
    "libcurl4-openssl-dev": ("curl/",),
    "libdbus-1-dev": ("dbus/",),
    "libeigen3-dev": ("Eigen/",),
    "libev-dev": ("ev.h",),
    "libevent-dev": ("event.h", "event2/"),
    "libffi-dev": ("ffi.h",),
    "libfftw3-dev": ("fftw3.h",),
    "libfreetype-dev": ("ft2build.h", "freetype/"),
    "libgdbm-dev": ("gdbm.h",),
    "libgeos-dev": ("geos_c.h",),
    "libgl-dev": ("GL/gl.h",),
    "libglib2.0-dev": ("glib.h",),
    "libglu1-mesa-dev": ("GL/glu.h",),
    "libgmp-dev": ("gmp.h", "gmpxx.h"),
    "libgraphviz-dev": ("graphviz/",),
    "libgsl-dev": ("gsl/",),
    "libhdf5-dev": ("hdf5.h",),
    "libibverbs-dev": ("infiniband/",),
    "libicu-dev": ("unicode/",),
    "libjpeg-dev": ("jpeglib.h",),
    "libkrb5-dev": ("krb5.h", "gssapi.h", "gssapi/"),
    "libldap2-dev": ("lber.h", "ldap.h"),
    "liblmdb-dev": ("lmdb.h",),
    "liblz4-dev": ("lz4.h",),
    "liblzma-dev": ("lzma.h",),
    "liblzo2-dev": ("lzo/",),
    "libmagic-dev": ("magic.h",),
    "libmpc-dev": ("mpc.h",),
    "libmpfr-dev": ("mpfr.h",),
    "libncurses-dev": ("curses.h", "ncurses.h"),
    "libnuma-dev": ("numa.h",),
    "libopenblas-dev": ("cblas.h", "openblas/"),
    "libopencv-dev": ("opencv2/",),
    "libopenmpi-dev": ("mpi.h",),
    "libpcap-dev": ("pcap.h", "pcap/"),
    "libpcre2-dev": ("pcre2.h",),
    "libpng-dev": ("png.h",),
    "libpq-dev": ("libpq-fe.h", "postgres_ext.h"),
    "libprotobuf-dev": ("google/protobuf/",),
    "libpulse-dev": ("pulse/",),
    "libreadline-dev": ("readline/",),
    "libsasl2-dev": ("sasl/", "sasl.h"),
    "libsdl2-dev": ("SDL2/", "SDL.h"),
    "libsnappy-dev": ("snappy.h", "snappy-c.h"),
    "libsndfile1-dev": ("sndfile.h",),
    "libsodium-dev": ("sodium.h",),
    "libspatialindex-dev": ("spatialindex/",),
    "libsqlite3-dev": ("sqlite3.h",),
    "libssl-dev": ("openssl/",),
    "libsystemd-dev": ("systemd/",),
    "libtiff-dev": ("tiffio.h",),
    "libudev-dev": ("libudev.h",),
    "libusb-1.0-0-dev": ("libusb.h", "libusb-1.0/"),
    "libuv1-dev": ("uv.h",),
    "libwebp-dev": ("webp/",),
    "libx11-dev": ("X11/",),
    "libxml2-dev": ("libxml/",),
    "libxslt1-dev": ("libxslt/",),
    "libyaml-dev": ("yaml.h",),
    "libzmq3-dev": ("zmq.h",),
    "libzstd-dev": ("zstd.h",),
    "linux-libc-dev": ("linux/",),
    "portaudio19-dev": ("portaudio.h",),
    "python3-dev": ("Python.h",),
    "unixodbc-dev": ("sql.h", "sqlext.h"),
    "uuid-dev": ("uuid/",),
    "zlib1g-dev": ("zlib.h",),
}
_LIBRARIES: dict[str, str] = {
    "freetype": "libfreetype-dev",
    "jpeg": "libjpeg-dev",
    "png": "libpng-dev",
    "tiff": "libtiff-dev",
    "webp": "libwebp-dev",
    "zlib": "zlib1g-dev",
}
_PROGRAMS: dict[str, str] = {
    "autoconf": "autoconf",
    "autoreconf": "autoconf",
    "automake": "automake",
    "bison": "bison",
    "bzip2": "bzip2",
    "cargo": "cargo",
    "curl": "curl",
    "curl-config": "libcurl4-openssl-dev",
    "ffmpeg": "ffmpeg",
    "file": "file",
    "flex": "flex",
    "gdb": "gdb",
    "gfortran": "gfortran",
    "git": "git",
    "git-lfs": "git-lfs",
    "java": "default-jre-headless",
    "javac": "default-jdk-headless",
    "jq": "jq",
    "krb5-config": "libkrb5-dev",
    "libtoolize": "libtool",
    "lsb_release": "lsb-release",
    "make": "make",
    "mpicc": "libopenmpi-dev",
    "mysql_config": "default-libmysqlclient-dev",
    "ninja": "ninja-build",
    "node": "nodejs",
    "npm": "npm",
    "openssl": "openssl",
    "patch": "patch",
    "pg_config": "libpq-dev",
    "pkg-config": "pkg-config",
    "ps": "procps",
    "rsync": "rsync",
    "rustc": "rustc",
    "sudo": "sudo",
    "swig": "swig",
    "unzip": "unzip",
    "wget": "wget",
    "xml2-config": "libxml2-dev",
    "xslt-config": "libxslt1-dev",
    "xz": "xz-utils",
    "zip": "zip",
}
_MODULES: dict[str, str] = {
    "BLAS": "libopenblas-dev",
    "Boost": "libboost-all-dev",
    "BZip2": "libbz2-dev",
    "CURL": "libcurl4-openssl-dev",
    "Eigen3": "libeigen3-dev",
    "EXPAT": "libexpat1-dev",
    "FFTW3": "libfftw3-dev",
    "Freetype": "libfreetype-dev",
    "GTest": "libgtest-dev",
    "HDF5": "libhdf5-dev",
    "ICU": "libicu-dev",
    "JPEG": "libjpeg-dev",
    "LAPACK": "liblapack-dev",
    "LibLZMA": "liblzma-dev",
    "LibXml2": "libxml2-dev",
    "MPI": "libopenmpi-dev",
    "OpenCV": "libopencv-dev",
    "OpenGL": "libgl-dev",
    "OpenSSL": "libssl-dev",
    "PNG": "libpng-dev",
    "PostgreSQL": "libpq-dev",
    "Protobuf": "libprotobuf-dev",
    "SQLite3": "libsqlite3-dev",
    "TIFF": "libtiff-dev",
    "X11": "libx11-dev",
    "ZLIB": "zlib1g-dev",
}
_AXES = {"cmake": "cmake", "clang": "clang", "clang++": "clang", "nvcc": "cuda", "ptxas": "cuda"}
_COMPILERS = ("gcc", "g++", "cc", "c++", "cpp")


def of_header(path: str) -> str:
    """What to put into the case for a header as an #include names it, '' where that is not known."""
    for package, names in _HEADERS.items():
        if any(path == name or (name.endswith("/") and path.startswith(name)) for name in names):
            return f"environment.apt: [{package}]"
    return ""


def of_program(name: str) -> str:
    """What to put into the case for a program: an axis where one brings it, else a package; '' for an unknown one."""
    if any(name == each or name.endswith(f"-linux-gnu-{each}") for each in _COMPILERS):
        return "matrix.gcc: [VERSION]"
    if axis := _AXES.get(name):
        return f"matrix.{axis}: [VERSION]"
    return f"environment.apt: [{_PROGRAMS[name]}]" if name in _PROGRAMS else ""


def of_libraries(names: Sequence[str]) -> str:
    """What to put into the case for libraries by their common names, '' where that is not known of all."""
    packages = [_LIBRARIES[name] for name in names if name in _LIBRARIES]
    return f"environment.apt: [{', '.join(packages)}]" if len(packages) == len(names) else ""


def of_module(name: str) -> str:
    """What to put into the case for what CMake's find_package looks for, '' where that is not known."""
    return f"environment.apt: [{_MODULES[name]}]" if name in _MODULES else ""
