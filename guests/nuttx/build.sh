#!/bin/bash
# Builds NuttX for QEMU's `virt` with a 32-bit core, from the source of a release, and prints where the kernel is:
#
#     git clone --depth 1 -b nuttx-13.0.0 https://github.com/apache/nuttx build/nuttx-source/nuttx
#     git clone --depth 1 -b nuttx-13.0.0 https://github.com/apache/nuttx-apps build/nuttx-source/apps
#     guests/nuttx/build.sh build/nuttx-source build/nuttx
#     ./spica run --kernel build/nuttx/nuttx.elf --memory 64M
#
# It is NuttX's configuration qemu-armv7a:nsh, with what nuttx.config says otherwise, and after that a third argument:
#
#     guests/nuttx/build.sh build/nuttx-source build/nuttx-cyclictest guests/nuttx/cyclictest.config
#
# builds the kernel that `spica bench` looks for. The source is copied: NuttX is built in its own tree. That takes two
# minutes of a processor's time and 600 MiB. A kernel that is there already, and is newer than source and
# configuration, is left as it is.
set -euo pipefail
export LC_ALL=C.UTF-8

here=$(dirname "$(readlink -f "$0")")
if [ $# -lt 2 ] || [ $# -gt 3 ] || [ "$1" = --help ]; then
    echo "usage: build.sh SOURCE DIRECTORY [CONFIG], where SOURCE has NuttX in nuttx and its applications in apps" >&2
    exit 2
fi
for there in "$1/nuttx/tools/configure.sh" "$1/apps/testing/ostest/Kconfig"; do
    [ -f "$there" ] || { echo "build.sh: there is no $there; the head of this script says how to get it" >&2; exit 2; }
done
source=$(readlink -e "$1")
configs=("$here/nuttx.config")
if [ $# = 3 ]; then
    configs+=("$(readlink -e "$3")") || { echo "build.sh: there is no $3" >&2; exit 2; }
fi
mkdir -p "$2"
cd "$2"

# One at a time: they have the tree in common.
exec 9>lock
flock 9
newer=$(find "$source/nuttx/" "$source/apps/" "$here/build.sh" "${configs[@]}" \
    -name .git -prune -o -newer nuttx.elf -type f -print -quit 2>/dev/null || echo all)
if [ -f nuttx.elf ] && [ -z "$newer" ]; then
    readlink -f nuttx.elf
    exit
fi
. "$here/../needs.sh"
needs arm-none-eabi-gcc:gcc-arm-none-eabi kconfig-conf:kconfig-frontends-nox make:make gcc:gcc git:git
# The compiler answers with the bare name if it has none.
[ "$(arm-none-eabi-gcc -print-file-name=libm.a 2>/dev/null)" != libm.a ] || missing+=(libnewlib-arm-none-eabi)
has_all

rm -rf tree
mkdir -p tree/nuttx tree/apps
cp -a "$source/nuttx/." tree/nuttx
cp -a "$source/apps/." tree/apps
cd tree/nuttx
tools/configure.sh -l qemu-armv7a:nsh >../log 2>&1 || { tail -n 20 ../log >&2; exit 1; }
# What is said last of a name holds.
cat "${configs[@]}" >>.config
make olddefconfig >>../log 2>&1 || { tail -n 20 ../log >&2; exit 1; }
# A name that the source does not know, or one without what it depends on, is dropped in silence.
if grep -h '^CONFIG_' "${configs[@]}" | grep -vxF -f .config >&2; then
    echo "build.sh: this of ${configs[*]##*/} is not in force" >&2
    exit 1
fi
if sed -nE 's/^# (CONFIG_[A-Za-z0-9_]+) is not set$/\1=/p' "${configs[@]}" | grep -F -f - .config >&2; then
    echo "build.sh: this is in force, though ${configs[*]##*/} says otherwise" >&2
    exit 1
fi
# The configuration is for a Cortex-A7, which has instructions that a Cortex-A8 and A9 have not: divisions, and VFPv4.
# The assembler alone is told of HVC, which NuttX calls PSCI by.
cpu="-mcpu=cortex-a8 -mfpu=neon -mfloat-abi=hard -Wa,-mcpu=cortex-a8+virt"
# Several files are compiled at once: what went wrong is not at the end of the log.
make "-j$(nproc)" "ARCHCPUFLAGS=$cpu" >>../log 2>&1 ||
    { tr '\r' '\n' <../log | grep -E 'error:|\*\*\*|undefined' | head -n 20 >&2; exit 1; }
cp nuttx ../../nuttx.new
cd ../..
mv nuttx.new nuttx.elf
readlink -f nuttx.elf
