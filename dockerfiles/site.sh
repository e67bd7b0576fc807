# Makes known to this build step what the site that builds has set, where it has: mounts, gone afterwards. No password is
# among them: the site's gateway, outside the build, fetches packages with its credentials and proxies.
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1
# Downloads are kept by the gateway, where no step can change them; "off" is what every pip takes for no cache.
export PIP_NO_CACHE_DIR=off
unset SSH_AUTH_SOCK  # the mount of the gateway sets it, and no agent is there
# pip is the one of the interpreter that comes first on PATH.
pip() { "$(command -v python || command -v python3)" /run/reprokit/keeping_pip.py "$@"; }
for gateway in /run/reprokit/gateway.sock /run/reprokit/gateway/gateway.sock; do
    [ -S "$gateway" ] || continue
    if command -v perl > /dev/null; then
        perl /run/reprokit/relay.pl "$gateway" 17890
    elif command -v python3 || command -v python; then
        "$(command -v python3 || command -v python)" /run/reprokit/relay.py "$gateway" 17890
    else
        echo "reprokit: this image has neither perl nor python, so this step reaches no package index of the site" >&2
    fi
    break
done > /dev/null
[ ! -s /run/secrets/site_env ] || . /run/secrets/site_env
[ ! -s /run/secrets/pip_conf ] || export PIP_CONFIG_FILE=/run/secrets/pip_conf
# Steps that fetch an interpreter or a compiler alone have this: they run no code of a case.
[ ! -s /run/secrets/netrc ] || export NETRC=/run/secrets/netrc
# What the site names for them may be on its own network, or on this host: the gateway reaches it, the step does not.
if [ -S "$gateway" ] && { [ -e /run/reprokit/uv-python.sh ] || [ -e /run/reprokit/conda_gcc.py ]; }; then
    unset NO_PROXY no_proxy
    export HTTP_PROXY=http://127.0.0.1:17890 HTTPS_PROXY=http://127.0.0.1:17890
fi
if [ -s /run/secrets/ca_bundle ]; then
    export PIP_CERT=/run/secrets/ca_bundle SSL_CERT_FILE=/run/secrets/ca_bundle
    export REQUESTS_CA_BUNDLE=/run/secrets/ca_bundle CURL_CA_BUNDLE=/run/secrets/ca_bundle
    export GIT_SSL_CAINFO=/run/secrets/ca_bundle NODE_EXTRA_CA_CERTS=/run/secrets/ca_bundle
fi
if [ -s /run/secrets/apt_conf ]; then
    export APT_CONFIG=/run/secrets/apt_conf
    # Reprokit::AptMirror names a mirror of Debian's archive: this step alone reads its package lists from there.
    mirror=
    eval "$(apt-config shell mirror Reprokit::AptMirror 2>/dev/null)"
    if [ -n "$mirror" ]; then
        lists=$(mktemp -d)
        trap 'rm -rf "$lists"' EXIT
        chmod 755 "$lists"
        for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
            [ ! -s "$list" ] || sed -E "s#https?://(deb|security)\.debian\.org/debian(-security)?#$mirror\2#" "$list" \
                > "$lists/${list##*/}"
        done
        { cat "$APT_CONFIG"; printf 'Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "%s";\n' "$lists"; } \
            > "$lists/apt.conf"
        export APT_CONFIG="$lists/apt.conf"
    fi
fi
