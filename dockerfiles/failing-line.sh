# Read by bash before a script of the case (BASH_ENV): says which line of it stopped the build.
unset BASH_ENV
set -E
# Of a subshell the line as a whole is named: what fails inside may be handled.
trap 'reprokit_status=$?; [[ $- != *e* || $BASH_SUBSHELL -gt 0 ]] || printf "reprokit: %s line %d, exit status %d: %s\n" "${0##*/}" "$LINENO" "$reprokit_status" "${BASH_COMMAND%%$'"'\n'"'*}" >&2' ERR
