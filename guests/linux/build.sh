#!/bin/bash
# Builds Linux of one kind from the source in Debian's package linux-source-6.1, and prints where the kernel is:
#
#     apt-get download linux-source-6.1 && dpkg-deb -x linux-source-6.1_*.deb source
#     guests/linux/build.sh thumb2 source/usr/src/linux-source-6.1.tar.xz build/linux
#     ./spica run --kernel build/linux/thumb2/zImage
#
# A kind is a file KIND.config beside this one: what it has otherwise than common.config, which is for all of them. The
# source is unpacked once, into 1.4 GiB of the directory. A kind takes five minutes of a processor's time and 150 MiB. A
# kernel that is there already, and is newer than source and configuration, is left as it is.
set -euo pipefail
export LC_ALL=C.UTF-8

here=$(dirname "$(readlink -f "$0")")
kinds=$(cd "$here" && printf '%s\n' *.config | sed '/^common\.config$/d; s/\.config$//')
if [ $# != 3 ] || ! grep -qxF -e "$1" <<<"$kinds"; then
    echo "usage: build.sh KIND linux-source-6.1.tar.xz DIRECTORY, where KIND is one of:" $kinds >&2
    exit 2
fi
kind=$1
source=$(readlink -e "$2") || { echo "build.sh: there is no $2" >&2; exit 2; }
mkdir -p "$3/$kind"
cd "$3"

if [ "$kind/zImage" -nt "$source" ] && [ "$kind/zImage" -nt "$here/common.config" ] &&
    [ "$kind/zImage" -nt "$here/$kind.config" ]; then
    readlink -f "$kind/zImage"
    exit
fi
# One at a time: they have the source in common.
exec 9>lock
flock 9
. "$here/../needs.sh"
needs arm-linux-gnueabihf-gcc:gcc-arm-linux-gnueabihf bison:bison flex:flex bc:bc make:make gcc:gcc xz:xz-utils
has_all

if ! [ tree -nt "$source" ]; then
    rm -rf tree unpacked
    mkdir unpacked
    tar -xf "$source" -C unpacked --strip-components 1
    touch unpacked
    mv unpacked tree
fi

# What is said last of a name holds.
config=$PWD/$kind/config
cat "$here/common.config" "$here/$kind.config" |
    sed -nE 's/^(# )?(CONFIG_[A-Za-z0-9_]+)[= ].*/\2 &/p' |
    awk '{ name = $1; sub(/^[^ ]+ /, ""); said[name] = $0 } END { for (name in said) print said[name] }' |
    sort >"$config"
make=(make --silent -C tree "O=$PWD/$kind/out" ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf- "-j$(nproc)")
KCONFIG_ALLCONFIG=$config "${make[@]}" allnoconfig >&2
# A name that the source does not know, or one without what it depends on, is dropped in silence.
if grep '^CONFIG_' "$config" | grep -vxF -f "$kind/out/.config" >&2; then
    echo "build.sh: this of $kind.config and common.config is not in force" >&2
    exit 1
fi
if sed -nE 's/^# (CONFIG_[A-Za-z0-9_]+) is not set$/\1=/p' "$config" | grep -F -f - "$kind/out/.config" >&2; then
    echo "build.sh: this is in force, though $kind.config says otherwise" >&2
    exit 1
fi
"${make[@]}" zImage >&2
cp "$kind/out/arch/arm/boot/zImage" "$kind/zImage.new"
mv "$kind/zImage.new" "$kind/zImage"
readlink -f "$kind/zImage"
