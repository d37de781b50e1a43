#!/bin/sh
# Prints the outline: one line per source file, with the first sentence of the text at its head.
#
# Fails where a file has no such text.
set -eu
export LC_ALL=C

docs=$(dirname "$0")
cd "$docs/.."

# Source files, sorted by directory and name. Build directories are left out.
files() {
    {
        find crates tests bench fuzz guests -name target -prune -o -type f \
            \( -name '*.rs' -o -name '*.[sS]' -o -name '*.inc' -o -name '*.ld' -o -name '*.sh' \) -print
        find .ci docs guests -type f \( -name run -o -name '*.sh' -o -name init -o -name install -o -name settle \) -print
        echo spica
    } | sort -u
}

# The first sentence of the comment at the head of a file; nothing where there is none.
sentence() {
    case $1 in
    *.rs) leader='^//! ?' ;;
    *.[sS] | *.inc) leader='^@ ?' ;;
    *.ld) leader='^(/[*]| [*]) ?' ;;
    *) leader='^# ?' ;;
    esac
    awk -v leader="$leader" '
        /^#!\// { next }
        $0 !~ leader { exit }
        {
            sub(leader, "")
            if ($0 == "") { if (text == "") next; exit }
            text = text (text == "" ? "" : " ") $0
            if (match(text, /[.](  *[A-Z`*].*)?$/)) { exit }
        }
        END {
            if (match(text, /[.]  *[A-Z`*]/)) text = substr(text, 1, RSTART)
            # References of rustdoc are links there only.
            gsub(/`\]\([^)]*\)/, "`", text)
            gsub(/\[`/, "`", text)
            gsub(/`\]/, "`", text)
            gsub(/\\\[/, "[", text)
            gsub(/\\\]/, "]", text)
            print text
        }' "$1"
}

# The part of the tree that a file belongs to.
part() {
    case $1 in
    crates/*) echo "$1" | cut -d/ -f1-2 ;;
    tests/* | bench/* | fuzz/*) echo "${1%%/*}" ;;
    guests/*.rs) echo guests ;;
    *) echo 'scripts' ;;
    esac
}

write() {
    echo '# Outline'
    echo
    echo 'One line per source file, by `docs/outline.sh`.'
    before=
    for kind in crates guests tests bench fuzz scripts; do
        files | while read -r file; do
            here=$(part "$file")
            [ "${here%%/*}" = "$kind" ] || continue
            if [ "$here" != "$before" ]; then
                printf '\n## %s\n\n' "$here"
                before=$here
            fi
            text=$(sentence "$file")
            if [ -z "$text" ]; then
                case $file in
                */tests.rs) text='Tests of the module.' ;;
                *) text='(no description)' ;;
                esac
            fi
            printf -- '- `%s`: %s\n' "$file" "$text"
        done
    done
}

[ $# = 0 ] || {
    echo 'usage: docs/outline.sh' >&2
    exit 2
}
outline=$(write)
printf '%s\n' "$outline"
! printf '%s\n' "$outline" | grep ': (no description)$' | sed 's/^/outline: /' | grep . >&2
