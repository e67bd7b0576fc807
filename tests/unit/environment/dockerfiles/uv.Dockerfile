FROM nvidia/cuda:11.8.0-devel-ubuntu20.04 AS uv
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
 && apt-get install -y ca-certificates python3.9 python3.9-venv python3-distutils \
 && python3.9 -m venv /opt/tool \
 && pip install pip==24.0 \
 && pip install uv==0.13.9
RUN --mount=type=cache,id=reprokit-uv,target=/root/.cache/uv \
    --mount=type=secret,id=uv_python --mount=type=secret,id=uv_downloads --mount=type=secret,id=netrc \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    --mount=type=bind,source=reprokit/uv-python.sh,target=/run/reprokit/uv-python.sh \
    . /run/reprokit/site.sh \
 && sh /run/reprokit/uv-python.sh 3.11.18
FROM gcc:8.2.0 AS gcc
FROM nvidia/cuda:11.8.0-devel-ubuntu20.04
ENTRYPOINT []
# An unprivileged user, written without useradd: some images lack it, and it would put the day into the image.
RUN grep -q '^repro:' /etc/passwd \
 || { sed -i '/^[^:]*:[^:]*:1000:/d' /etc/passwd /etc/group \
   && echo 'repro:x:1000:1000::/home/repro:/bin/bash' >> /etc/passwd \
   && echo 'repro:x:1000:' >> /etc/group \
   && mkdir -p /home/repro \
   && chown 1000:1000 /home/repro; }
ENV LANG=C.UTF-8 VIRTUAL_ENV=/opt/venv PATH=/opt/venv/bin:/usr/local/cuda/bin:$PATH
COPY --from=uv /opt/python/ /opt/python/
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
 && apt-get install -y ca-certificates \
 && /opt/python/3.11.18/bin/python3 -m venv /opt/venv
RUN --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    . /run/reprokit/site.sh \
 && pip install pip==24.0
ENV CUDA_HOME=/usr/local/cuda LD_LIBRARY_PATH=/usr/local/cuda/lib64:/usr/local/cuda/extras/CUPTI/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
COPY --from=gcc /usr/local/ /opt/gcc/
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
 && apt-get install -y binutils libc6-dev make \
 && sh /run/reprokit/gcc-tree.sh
RUN --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    . /run/reprokit/site.sh \
 && pip install six
RUN mkdir -p /workspace \
 && chown 1000:1000 /workspace
WORKDIR /workspace
USER repro
# hadolint global ignore=DL3008,DL3013,DL3015,DL3042,DL3066
