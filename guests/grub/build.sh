#!/bin/bash
# Makes a disk that UEFI starts GRUB from, and GRUB a kernel, and prints where it is. GRUB is that of Debian's package
# grub-efi-arm-bin:
#
#     apt-get download grub-efi-arm-bin:armhf && dpkg-deb -x grub-efi-arm-bin_*.deb grub
#     guests/grub/build.sh grub/usr/lib/grub/arm-efi KERNEL INITRD build/grub
#
# The disk is one FAT file system: EFI/BOOT/BOOTARM.EFI is what UEFI looks for, boot/ has the rest.
set -euo pipefail
export LC_ALL=C.UTF-8

if [ $# != 4 ]; then
    echo "usage: build.sh GRUB KERNEL INITRD DIRECTORY" >&2
    exit 2
fi
for there in "$1/kernel.img" "$2" "$3"; do
    [ -f "$there" ] || { echo "build.sh: there is no $there" >&2; exit 2; }
done
here=$(dirname "$(readlink -f "$0")")
. "$here/../needs.sh"
needs grub-mkimage:grub-common mformat:mtools
has_all

mkdir -p "$4"
# Its modules are those that the configuration needs; what is in boot/grub is found by the firmware's name of the disk.
grub-mkimage -O arm-efi -d "$1" -p /boot/grub -o "$4/bootarm.efi" \
    boot echo fat linux minicmd normal reboot halt search search_fs_file terminal
size=$(($(stat -Lc %s "$2") + $(stat -Lc %s "$3") + $(stat -c %s "$4/bootarm.efi")))
disk=$4/disk.new
rm -f "$disk"
# With room for the file system's own tables; FAT wants some megabytes at least.
truncate -s $((size / 1048576 + 8))M "$disk"
mformat -i "$disk" ::
mmd -i "$disk" ::EFI ::EFI/BOOT ::boot ::boot/grub
mcopy -i "$disk" "$4/bootarm.efi" ::EFI/BOOT/BOOTARM.EFI
mcopy -i "$disk" "$here/grub.cfg" ::boot/grub/grub.cfg
mcopy -i "$disk" "$2" ::boot/vmlinuz
mcopy -i "$disk" "$3" ::boot/initrd.img
mv "$disk" "$4/disk.img"
readlink -f "$4/disk.img"
