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
RUN --mount=type=cache,id=reprokit-apt-debian-12,target=/var/cache/apt,sharing=locked \
    --mount=type=cache,id=reprokit-lists-debian-12,target=/var/lib/apt/lists,sharing=locked \
    --mount=type=bind,source=reprokit/apt.conf,target=/etc/apt/apt.conf.d/docker-clean \
    --mount=type=secret,id=apt_conf \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=secret,id=ca_bundle --mount=type=secret,id=netrc \
    . /run/reprokit/site.sh \
 && apt-get update \
 && apt-get install -y ca-certificates
RUN --mount=type=cache,id=reprokit-apt-debian-12,target=/var/cache/apt,sharing=locked \
    --mount=type=cache,id=reprokit-lists-debian-12,target=/var/lib/apt/lists,sharing=locked \
    --mount=type=bind,source=reprokit/apt.conf,target=/etc/apt/apt.conf.d/docker-clean \
    --mount=type=secret,id=apt_conf \
    --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \
    --mount=type=secret,id=ca_bundle --mount=type=secret,id=netrc \
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
# hadolint global ignore=DL3008,DL3013,DL3015,DL3066
