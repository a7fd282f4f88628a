package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// unfit are the errors of a disk that can't take anything now: it is full, over its quota, broken or read-only.
var unfit = []error{unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS}

// Unfit reports whether err says that the disk, and not what was asked of it, is at fault.
func Unfit(err error) bool {
	return slices.ContainsFunc(unfit, func(cause error) bool { return errors.Is(err, cause) })
}

// room is how much Room writes: more than most files of ours have.
const room = 64 << 10

// Room says what keeps the folder dir from taking more files; nil when nothing does. It writes one that has no name any
// more, so that nothing is left. Programs tell of a full disk in their own words; this tells whether it was the disk.
func (d *Disk) Room(dir string) error {
	path := filepath.Join(dir, TempPrefix+"room")
	if err := d.Step("create", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		return err
	}
	if _, err := f.Write(make([]byte, room)); err != nil {
		return err
	}
	return f.Sync()
}
