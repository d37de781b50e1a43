#!/bin/bash
# Makes a disk that U-Boot starts a kernel from by itself, and prints where it is:
#
#     guests/u-boot/disk.sh KERNEL INITRD build/u-boot
#
# The disk has one partition, with a FAT file system: extlinux/extlinux.conf is what U-Boot's standard boot looks for,
# boot/ has the rest.
set -euo pipefail
export LC_ALL=C.UTF-8

if [ $# != 3 ]; then
    echo "usage: disk.sh KERNEL INITRD DIRECTORY" >&2
    exit 2
fi
for there in "$1" "$2"; do
    [ -f "$there" ] || { echo "disk.sh: there is no $there" >&2; exit 2; }
done
here=$(dirname "$(readlink -f "$0")")
. "$here/../needs.sh"
needs mformat:mtools
has_all

mkdir -p "$3"
disk=$3/disk.new
rm -f "$disk"
# With room for the file system's own tables; FAT wants some megabytes at least. The first megabyte is the partition
# table's.
size=$((($(stat -Lc %s "$1") + $(stat -Lc %s "$2")) / 1048576 + 8))
truncate -s $((size + 1))M "$disk"
# A number as four bytes, the lowest first.
bytes() { printf '\\x%02x' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24)); }
# Its one entry: bootable, no cylinders, type 0x0c (FAT), first sector, sectors; and the table's mark.
entry="\\x80\\xfe\\xff\\xff\\x0c\\xfe\\xff\\xff$(bytes 2048)$(bytes $((size * 2048)))"
printf "$entry" | dd of="$disk" bs=1 seek=446 conv=notrunc status=none
printf '\x55\xaa' | dd of="$disk" bs=1 seek=510 conv=notrunc status=none
mformat -i "$disk@@1M" -T $((size * 2048)) ::
mmd -i "$disk@@1M" ::boot ::extlinux
mcopy -i "$disk@@1M" "$here/extlinux.conf" ::extlinux/extlinux.conf
mcopy -i "$disk@@1M" "$1" ::boot/vmlinuz
mcopy -i "$disk@@1M" "$2" ::boot/initrd.img
mv "$disk" "$3/disk.img"
readlink -f "$3/disk.img"
