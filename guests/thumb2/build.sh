#!/bin/bash
# Builds Linux in the Thumb instruction set (CONFIG_THUMB2_KERNEL), from the source in Debian's package
# linux-source-6.1, and prints where the kernel is:
#
#     apt-get download linux-source-6.1 && dpkg-deb -x linux-source-6.1_*.deb source
#     guests/thumb2/build.sh source/usr/src/linux-source-6.1.tar.xz build/thumb2
#     ./spica run --kernel build/thumb2/zImage
#
# It takes five minutes of a processor's time and 2 GiB in the directory. A kernel that is there already, and is newer
# than source and configuration, is left as it is.
set -euo pipefail
export LC_ALL=C.UTF-8

if [ $# != 2 ]; then
    echo "usage: build.sh linux-source-6.1.tar.xz DIRECTORY" >&2
    exit 2
fi
source=$(readlink -e "$1") || { echo "build.sh: there is no $1" >&2; exit 2; }
config=$(dirname "$(readlink -f "$0")")/config
mkdir -p "$2"
cd "$2"

if [ zImage -nt "$source" ] && [ zImage -nt "$config" ]; then
    readlink -f zImage
    exit
fi
missing=()
tools=(arm-linux-gnueabihf-gcc:gcc-arm-linux-gnueabihf bison:bison flex:flex bc:bc make:make gcc:gcc xz:xz-utils)
for tool in "${tools[@]}"; do
    command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
if [ ${#missing[@]} != 0 ]; then
    echo "build.sh: missing here: apt-get install ${missing[*]}" >&2
    exit 1
fi

if ! [ tree -nt "$source" ]; then
    rm -rf tree unpacked
    mkdir unpacked
    tar -xf "$source" -C unpacked --strip-components 1
    touch unpacked
    mv unpacked tree
fi
make=(make --silent -C tree "O=$PWD/out" ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf- "-j$(nproc)")
KCONFIG_ALLCONFIG=$config "${make[@]}" allnoconfig >&2
# A name that the source does not know, or one without what it depends on, is dropped in silence.
if grep '^CONFIG_' "$config" | grep -vxF -f out/.config >&2; then
    echo "build.sh: this of $config is not in force" >&2
    exit 1
fi
"${make[@]}" zImage >&2
cp out/arch/arm/boot/zImage zImage.new
mv zImage.new zImage
readlink -f zImage
