# Makes known to this build step what the site that builds has set, where it has: mounted secrets, gone afterwards.
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# pip is the one of the interpreter that comes first on PATH, with a cache that also keeps what mirrors serve.
pip() { "$(command -v python || command -v python3)" /run/reprokit/keeping_pip.py "$@"; }
[ ! -s /run/secrets/pip_conf ] || export PIP_CONFIG_FILE=/run/secrets/pip_conf
[ ! -s /run/secrets/netrc ] || export NETRC=/run/secrets/netrc
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
