#!/bin/sh
# Runs a command with its temporary files in memory, where the machine has 10 GiB of that to spare, and removes what it leaves:
# memory.sh COMMAND [ARG...]. The tests make, sync and remove a great many small files, and disks are slow at that.
# root gets memory where temporary files usually are, which nobody else sees. Others get it below /dev/shm, which is another one in
# the sandbox: tests whose files the sandbox has to see find in TRELLIS_DISK where else files can be.
set -u
available=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null)
need=$((10 * 1024 * 1024)) usual=${TMPDIR:-/tmp}
if [ "${available:-0}" -lt $need ]; then
	exec "$@"
fi

# mounted runs a command with memory at $dir, for it and its children alone.
mounted() {
	unshare --mount sh -c 'mount -t tmpfs -o mode=1777,size=75% trellis-test "$0" && exec "$@"' "$dir" "$@"
}

if [ "$(id -u)" = 0 ] && dir=$(mktemp -d "$usual/trellis-test.XXXXXX" 2>/dev/null) && mounted true 2>/dev/null; then
	disk=$dir
else
	rmdir "${dir:-}" 2>/dev/null
	free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')
	if [ "${free:-0}" -lt $need ] || ! dir=$(mktemp -d /dev/shm/trellis-test.XXXXXX 2>/dev/null); then
		exec "$@"
	fi
	disk=$usual
	mounted() { "$@"; }
fi
clean() {
	chmod -R u+rwx "$dir" 2>/dev/null
	rm -rf "$dir"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# Go puts its own files there as well, some 3 GiB: with GOTMPDIR set to another place, its tests would use that.
export TRELLIS_DISK="$disk" TMPDIR="$dir"
unset GOTMPDIR
mounted "$@"
