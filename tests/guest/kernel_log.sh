# The kernel's log of a boot, with the level of each message.
echo "=== log"
dmesg -r
echo "--- $?"
