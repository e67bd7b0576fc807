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
 && pip install --no-deps --no-compile --only-binary :all: --target /usr/local/cuda/wheels/cuda nvidia-cuda-nvcc-cu12==12.0.140 nvidia-cuda-runtime-cu12==12.0.146 nvidia-cublas-cu12==12.0.2.224 nvidia-cufft-cu12==11.0.1.95 nvidia-curand-cu12==10.3.1.124 nvidia-cusolver-cu12==11.4.3.1 nvidia-cusparse-cu12==12.0.1.140 nvidia-npp-cu12==12.0.1.104 nvidia-nvjpeg-cu12==12.0.1.102 nvidia-cuda-cupti-cu12==12.0.146 nvidia-cuda-nvrtc-cu12==12.0.140 nvidia-nvjitlink-cu12==12.0.140 nvidia-nvtx-cu12==12.0.140 \
 && sh /run/reprokit/cuda-tree.sh /usr/local/cuda/wheels/cuda
RUN --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    --mount=type=bind,source=reprokit/cuda-tree.sh,target=/run/reprokit/cuda-tree.sh \
    . /run/reprokit/site.sh \
 && pip install --no-deps --no-compile --only-binary :all: --target /usr/local/cuda/wheels/cudnn nvidia-cudnn-cu12==8.9.7.29 \
 && sh /run/reprokit/cuda-tree.sh /usr/local/cuda/wheels/cudnn
RUN --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    . /run/reprokit/site.sh \
 && pip install --no-build-isolation --extra-index-url https://index.example/simple paddlepaddle==2.6.2
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
 && apt-get install -y gcc-12 g++-12 make python3-dev \
 && triplet=$(gcc-12 -dumpmachine) \
 && for tool in gcc g++ cpp gcov gcc-ar gcc-nm gcc-ranlib; do \
      ln -s "/usr/bin/$tool-12" "/usr/local/bin/$tool" \
   && ln -s "/usr/bin/$tool-12" "/usr/local/bin/$triplet-$tool"; \
    done \
 && ln -s gcc /usr/local/bin/cc \
 && ln -s g++ /usr/local/bin/c++
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
 && apt-get install -y libgl1 libglib2.0-0
RUN --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    . /run/reprokit/site.sh \
 && pip install --no-build-isolation --extra-index-url https://index.example/simple paddlepaddle==2.6.2 'numpy<2'
RUN mkdir -p /workspace /workspace/PaddleSeg /workspace/PaddleSeg/data /workspace/PaddleSeg/data/cityscapes /workspace/data /workspace/data/mine /workspace/tools \
 && chown 1000:1000 /workspace /workspace/PaddleSeg /workspace/PaddleSeg/data /workspace/PaddleSeg/data/cityscapes /workspace/data /workspace/data/mine /workspace/tools
WORKDIR /workspace
COPY --chown=1000:1000 ["sources/PaddleSeg/", "/workspace/PaddleSeg/"]
COPY --chown=1000:1000 ["files/", "/workspace/"]
COPY --chown=1000:1000 --chmod=0755 ["executables/", "/workspace/"]
RUN --mount=type=secret,id=pip_conf \
    --mount=type=bind,source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    . /run/reprokit/site.sh \
 && pip install --no-build-isolation --extra-index-url https://index.example/simple -r requirements.txt -e ./PaddleSeg \
 && find /workspace ! -user 1000 -exec chown -h 1000:1000 {} +
RUN --mount=type=secret,id=pip_conf \
    --mount=type=tmpfs,target=/var/lib/apt/lists \
    --mount=type=bind,source=reprokit/apt.conf,target=/etc/apt/apt.conf.d/docker-clean \
    --mount=type=secret,id=apt_conf \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    --mount=type=bind,source=reprokit/setup.sh,target=/run/reprokit/setup.sh \
    --mount=type=bind,source=reprokit/failing-line.sh,target=/run/reprokit/failing-line.sh \
    . /run/reprokit/site.sh \
 && BASH_ENV=/run/reprokit/failing-line.sh bash -eo pipefail /run/reprokit/setup.sh \
 && find /workspace ! -user 1000 -exec chown -h 1000:1000 {} +
USER repro
RUN --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=bind,source=reprokit/relay.pl,target=/run/reprokit/relay.pl \
    --mount=type=bind,source=reprokit/relay.py,target=/run/reprokit/relay.py \
    --mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666 \
    --mount=type=secret,id=site_env,mode=0444 --mount=type=secret,id=ca_bundle,mode=0444 \
    --mount=type=bind,source=reprokit/generate-0.sh,target=/run/reprokit/generate.sh \
    --mount=type=bind,source=reprokit/failing-line.sh,target=/run/reprokit/failing-line.sh \
    . /run/reprokit/site.sh \
 && BASH_ENV=/run/reprokit/failing-line.sh bash -eo pipefail /run/reprokit/generate.sh
# hadolint global ignore=DL3008,DL3013,DL3015,DL3042,DL3066
