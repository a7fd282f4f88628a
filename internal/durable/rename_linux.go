package durable

import "golang.org/x/sys/unix"

// renameExclusive renames, with EEXIST when the new name is taken.
func renameExclusive(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}
