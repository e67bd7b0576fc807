FROM reprokit/base:debian-12
ENTRYPOINT []
# An unprivileged user, written without useradd: some images lack it, and it would put the day into the image.
RUN grep -q '^repro:' /etc/passwd \
 || { sed -i '/^[^:]*:[^:]*:1000:/d' /etc/passwd /etc/group \
   && echo 'repro:x:1000:1000::/home/repro:/bin/bash' >> /etc/passwd \
   && echo 'repro:x:1000:' >> /etc/group \
   && mkdir -p /home/repro \
   && chown 1000:1000 /home/repro; }
ENV LANG=C.UTF-8 PATH=/usr/local/cuda/bin:$PATH
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
 && apt-get install -y ca-certificates
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
 && apt-get install -y gcc-11 g++-11 make \
 && triplet=$(gcc-11 -dumpmachine) \
 && for tool in gcc g++ cpp gcov gcc-ar gcc-nm gcc-ranlib; do \
      ln -s "/usr/bin/$tool-11" "/usr/local/bin/$tool" \
   && ln -s "/usr/bin/$tool-11" "/usr/local/bin/$triplet-$tool"; \
    done \
 && ln -s gcc /usr/local/bin/cc \
 && ln -s g++ /usr/local/bin/c++
RUN mkdir -p /workspace \
 && chown 1000:1000 /workspace
WORKDIR /workspace
USER repro
# hadolint global ignore=DL3008,DL3013,DL3015,DL3042,DL3066
