#!/bin/sh
# Runs a command with its temporary files in memory, where the machine has 10 GiB of that to spare, and removes what it leaves:
# memory.sh COMMAND [ARG...]. The tests sync thousands of small files, and disks are slow at that. Tests which need a disk
# find where it is in TRELLIS_DISK.
set -u
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')
available=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null)
need=$((10 * 1024 * 1024))
if [ "${free:-0}" -lt $need ] || [ "${available:-0}" -lt $need ] || ! dir=$(mktemp -d /dev/shm/trellis-test.XXXXXX 2>/dev/null); then
	exec "$@"
fi
clean() {
	chmod -R u+rwx "$dir" 2>/dev/null
	rm -rf "$dir"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# Go puts its own files there as well, some 3 GiB: with GOTMPDIR set to another place, its tests would use that.
export TRELLIS_DISK="${TMPDIR:-/tmp}" TMPDIR="$dir"
unset GOTMPDIR
"$@"
