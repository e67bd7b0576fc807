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
 && python /run/reprokit/conda_packages.py --glibc 2.36 --with 'cudatoolkit 11.8.*' --only cudnn /opt/cudnn 'cudnn ==8.4.1.50'
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
RUN --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    . /run/reprokit/site.sh \
 && pip install pip==24.0
ENV CUDA_HOME=/usr/local/cuda LD_LIBRARY_PATH=/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RUN --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    --mount=type=bind,source=reprokit/cuda-tree.sh,target=/run/reprokit/cuda-tree.sh \
    . /run/reprokit/site.sh \
 && pip install --no-deps --no-compile --only-binary :all: --target /usr/local/cuda/wheels/cuda nvidia-cuda-nvcc-cu11==11.8.89 nvidia-cuda-runtime-cu11==11.8.89 nvidia-cublas-cu11==11.11.3.6 nvidia-cufft-cu11==10.9.0.58 nvidia-curand-cu11==10.3.0.86 nvidia-cusolver-cu11==11.4.1.48 nvidia-cusparse-cu11==11.7.5.86 nvidia-npp-cu11==11.8.0.86 nvidia-nvjpeg-cu11==11.9.0.86 nvidia-cuda-cupti-cu11==11.8.87 nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-nvtx-cu11==11.8.86 \
 && sh /run/reprokit/cuda-tree.sh /usr/local/cuda/wheels/cuda
COPY --from=conda /opt/cudnn/ /usr/local/cuda/conda/cudnn/
RUN --mount=type=bind,source=reprokit/cuda-conda.sh,target=/run/reprokit/cuda-conda.sh \
    sh /run/reprokit/cuda-conda.sh /usr/local/cuda/conda/cudnn
RUN mkdir -p /workspace \
 && chown 1000:1000 /workspace
WORKDIR /workspace
USER repro
# hadolint global ignore=DL3008,DL3013,DL3015,DL3042,DL3066
