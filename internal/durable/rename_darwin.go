package durable

import "golang.org/x/sys/unix"

// renameExclusive renames, with EEXIST when the new name is taken.
func renameExclusive(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }
