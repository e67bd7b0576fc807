# Installs the RPM packages that are named, with dnf, or with yum where there is none, as Enterprise Linux 7.
set -e
program="$(command -v dnf || command -v yum)" || {
    echo "error: this image has neither dnf nor yum, by which $* would be installed" >&2
    exit 1
}
set -- install "$@"
case "$program" in */dnf) set -- --setopt=install_weak_deps=False "$@" ;; esac
[ ! -s /run/secrets/ca_bundle ] || set -- --setopt=sslcacert=/run/secrets/ca_bundle "$@"
"$program" -y --setopt=tsflags=nodocs "$@"
# yum installs what it finds and succeeds where it finds one of them.
case "$program" in */dnf) exit ;; esac
while [ "$1" != install ]; do shift; done
shift
for package; do
    case "$package" in @*) continue ;; esac
    rpm -q --whatprovides "$package" > /dev/null || rpm -q "$package" > /dev/null || {
        echo "error: yum did not find the package $package" >&2
        exit 1
    }
done
