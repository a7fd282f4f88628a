package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameExclusive renames, with EEXIST when the new name is taken.
func renameExclusive(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }

// exchange gives each of two files the name of the other, in one step.
func exchange(a, b string) error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) }

// beingWritten is not known here.
func beingWritten(*os.File) bool { return false }
