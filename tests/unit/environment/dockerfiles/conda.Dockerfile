FROM reprokit/base:debian-12 AS conda
ENV PATH=/opt/tool/bin:$PATH
RUN --mount=type=tmpfs,target=/var/lib/apt/lists \
    --mount=type=bind,source=reprokit/apt.conf,target=/etc/apt/apt.conf.d/docker-clean \
    --mount=type=secret,id=apt_conf \
    --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    . /run/reprokit/site.sh \
 && apt-get update \
 && apt-get install -y ca-certificates python3 python3-venv \
 && python3 -m venv /opt/tool \
 && pip install pip==24.0 \
 && pip install py-rattler==0.25.0
RUN --mount=type=cache,id=reprokit-conda,target=/root/.cache/rattler \
    --mount=type=secret,id=conda_channel --mount=type=secret,id=netrc \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    --mount=type=bind,source=reprokit/conda_packages.py,target=/run/reprokit/conda_gcc.py \
    --mount=type=bind,source=reprokit/conda_packages.py,target=/run/reprokit/conda_packages.py \
    . /run/reprokit/site.sh \
 && python /run/reprokit/conda_packages.py --glibc 2.36 /opt/gcc 'gcc_impl_linux-64 ==10.4.0' 'gxx_impl_linux-64 ==10.4.0'
FROM reprokit/base:debian-12
ENTRYPOINT []
# An unprivileged user, written without useradd: some images lack it, and it would put the day into the image.
RUN grep -q '^repro:' /etc/passwd \
 || { sed -i '/^[^:]*:[^:]*:1000:/d' /etc/passwd /etc/group \
   && echo 'repro:x:1000:1000::/home/repro:/bin/bash' >> /etc/passwd \
   && echo 'repro:x:1000:' >> /etc/group \
   && mkdir -p /home/repro \
   && chown 1000:1000 /home/repro; }
ENV LANG=C.UTF-8 VIRTUAL_ENV=/opt/venv PATH=/opt/venv/bin:/usr/local/cuda/bin:$PATH
RUN --mount=type=tmpfs,target=/var/lib/apt/lists \
    --mount=type=bind,source=reprokit/apt.conf,target=/etc/apt/apt.conf.d/docker-clean \
    --mount=type=secret,id=apt_conf \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    . /run/reprokit/site.sh \
 && apt-get update \
 && apt-get install -y ca-certificates python3 python3-venv \
 && python3 -m venv /opt/venv
COPY --from=conda /opt/gcc/ /opt/gcc/
RUN --mount=type=tmpfs,target=/var/lib/apt/lists \
    --mount=type=bind,source=reprokit/apt.conf,target=/etc/apt/apt.conf.d/docker-clean \
    --mount=type=secret,id=apt_conf \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    --mount=type=bind,source=reprokit/gcc-tree.sh,target=/run/reprokit/gcc-tree.sh \
    . /run/reprokit/site.sh \
 && apt-get update \
 && apt-get install -y binutils libc6-dev make python3-dev \
 && sh /run/reprokit/gcc-tree.sh
RUN mkdir -p /workspace \
 && chown 1000:1000 /workspace
WORKDIR /workspace
USER repro
# hadolint global ignore=DL3008,DL3013,DL3015,DL3042,DL3066
