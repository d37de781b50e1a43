# For the scripts that build guests: what they need on this machine.
# shellcheck shell=bash

# Packages that are not there.
missing=()

# Notes the packages of commands that are not there; each is COMMAND:PACKAGE.
needs() {
    local tool
    for tool; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
}

# Ends the script, and says which packages it wants, if any is missing.
has_all() {
    [ ${#missing[@]} = 0 ] && return
    echo "${0##*/}: missing here: apt-get install ${missing[*]}" >&2
    exit 1
}
