# Installs the packages of the lock in exactly their versions: from the archive as it is, or, where that has moved on,
# as it was on the lock's day (/run/secrets/apt_snapshot: its address, and that of its security updates).
set -e
export LC_ALL=C
missing=$(dpkg-query -W -f '${db:Status-Status} ${Package}=${Version}\n' | sed -n 's/^installed //p' \
    | grep -vxFf - /run/reprokit/apt.lock) || exit 0
can() { said=$(apt-get install -y --simulate --allow-downgrades $missing 2>&1); }
apt-get update
if ! can; then
    { read -r main; read -r security; } < /run/secrets/apt_snapshot
    echo "the archive has moved on; asking for it as it was: $main"
    lists=$(mktemp -d)
    trap 'rm -rf "$lists"' EXIT
    chmod 755 "$lists"
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ ! -s "$list" ] || sed -E -e "s#https?://(deb|security)\.debian\.org/debian-security/?#$security#" \
            -e "s#https?://deb\.debian\.org/debian/?#$main#" \
            -e "s#https?://(archive|security)\.ubuntu\.com/ubuntu/?#$main#" "$list" > "$lists/${list##*/}"
    done
    {
        [ -z "$APT_CONFIG" ] || cat "$APT_CONFIG"
        printf 'Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "%s";\n' "$lists"
        echo 'Acquire::Check-Valid-Until "false"; Acquire::Retries "0"; Acquire::http::Timeout "20";'
    } > "$lists/apt.conf"
    export APT_CONFIG="$lists/apt.conf"
    printf '%s\n' "$said" | grep '^E: '
    apt-get update 2>&1 | tee "$lists/update"
    if grep -q '^[EW]: ' "$lists/update"; then
        echo "reprokit: out of reach: $main"
        exit 100
    fi
    can || {
        printf '%s\n' "$said" | grep '^E: '
        exit 100
    }
fi
apt-get install -y --allow-downgrades $missing
