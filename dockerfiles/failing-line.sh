# Read by bash before a script of the case (BASH_ENV): says which line of it stopped the build.
unset BASH_ENV
set -E
# Of a subshell the line as a whole is named: what fails inside may be handled. Bash 4.4 takes the [[ ]] for the command.
trap 'reprokit_status=$? reprokit_command=$BASH_COMMAND; [[ $- != *e* || $BASH_SUBSHELL -gt 0 ]] || printf "reprokit: %s line %d, exit status %d: %s\n" "${0##*/}" "$LINENO" "$reprokit_status" "${reprokit_command%%$'"'\n'"'*}" >&2' ERR
