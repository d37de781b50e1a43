#!/bin/bash
# Builds U-Boot for QEMU's `virt`, as Debian's package u-boot-qemu has it, but with U-Boot's own unit tests (its command
# `ut`), and prints where it is. The source is that of Debian's source package u-boot, which `apt-get source` finds where
# the machine's sources have `deb-src`:
#
#     apt-get source --download-only u-boot
#     guests/u-boot/build.sh u-boot_*.orig.tar.xz build/u-boot
#     ./spica run --bios build/u-boot/u-boot.bin --memory 128M
#
# unit-tests.config is what it has otherwise than U-Boot's own configuration. It takes one minute of two processors and
# 200 MiB. What is there already, and is newer than source and configuration, is left as it is.
set -euo pipefail
export LC_ALL=C.UTF-8

if [ $# != 2 ]; then
    echo "usage: build.sh u-boot_VERSION.orig.tar.xz DIRECTORY" >&2
    exit 2
fi
here=$(dirname "$(readlink -f "$0")")
source=$(readlink -e "$1") || { echo "build.sh: there is no $1" >&2; exit 2; }
config=$here/unit-tests.config
mkdir -p "$2"
cd "$2"

if [ u-boot.bin -nt "$source" ] && [ u-boot.bin -nt "$config" ]; then
    readlink -f u-boot.bin
    exit
fi
# One at a time: they have the tree in common.
exec 9>lock
flock 9
. "$here/../needs.sh"
needs arm-linux-gnueabihf-gcc:gcc-arm-linux-gnueabihf bison:bison flex:flex bc:bc make:make gcc:gcc xz:xz-utils
[ -f /usr/include/openssl/evp.h ] || missing+=(libssl-dev)
has_all

rm -rf tree out
mkdir tree
tar -xf "$source" -C tree --strip-components 1
make=(make --silent -C tree "O=$PWD/out" CROSS_COMPILE=arm-linux-gnueabihf- "-j$(nproc)")
"${make[@]}" qemu_arm_defconfig >&2
# What is said last of a name holds. A name without a value is asked for, which ends here.
cat "$config" >>out/.config
"${make[@]}" olddefconfig </dev/null 2>&1 | { grep -v 'warning: override' || true; } >&2
if grep '^CONFIG_' "$config" | grep -vxF -f out/.config >&2; then
    echo "build.sh: this of unit-tests.config is not in force" >&2
    exit 1
fi
"${make[@]}" u-boot.bin </dev/null >&2
cp out/u-boot.bin u-boot.bin.new
mv u-boot.bin.new u-boot.bin
readlink -f u-boot.bin
