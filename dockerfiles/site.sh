# Makes known to this build step what the site that builds has set, where it has: mounted secrets, gone afterwards.
export DEBIAN_FRONTEND=noninteractive
[ ! -s /run/secrets/apt_conf ] || export APT_CONFIG=/run/secrets/apt_conf
[ ! -s /run/secrets/pip_conf ] || export PIP_CONFIG_FILE=/run/secrets/pip_conf
[ ! -s /run/secrets/netrc ] || export NETRC=/run/secrets/netrc
if [ -s /run/secrets/ca_bundle ]; then
    export PIP_CERT=/run/secrets/ca_bundle SSL_CERT_FILE=/run/secrets/ca_bundle
    export REQUESTS_CA_BUNDLE=/run/secrets/ca_bundle CURL_CA_BUNDLE=/run/secrets/ca_bundle
    export GIT_SSL_CAINFO=/run/secrets/ca_bundle NODE_EXTRA_CA_CERTS=/run/secrets/ca_bundle
fi
