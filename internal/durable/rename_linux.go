package durable

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// renameExclusive renames a file, and fails with EEXIST if the new name is taken.
func renameExclusive(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

// exchange swaps the names of two files atomically.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// remoteFilesystems lists file systems that refuse leases because the server has not granted one, whether or not somebody writes.
var remoteFilesystems = []int64{unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC}

// beingWritten reports whether anybody has the file f open for writing: the kernel then refuses a read lease. It returns false
// where that can't be known.
func beingWritten(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		return false
	}
	var fs unix.Statfs_t
	return errors.Is(err, unix.EAGAIN) && unix.Fstatfs(int(f.Fd()), &fs) == nil && !slices.Contains(remoteFilesystems, int64(fs.Type))
}
