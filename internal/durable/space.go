package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// diskErrors lists the errors of a disk that can't store anything now: it is full, over its quota, broken or read-only.
var diskErrors = []error{unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS}

// IsDiskError reports whether err means that the disk is at fault, and not the operation.
func IsDiskError(err error) bool {
	return slices.ContainsFunc(diskErrors, func(cause error) bool { return errors.Is(err, cause) })
}

// roomSize is the number of bytes that CheckSpace writes, more than most files of Trellis have.
const roomSize = 64 << 10

// CheckSpace returns an error if the folder dir can't take more files. It writes to a file that it has already removed, so that nothing
// is left. Programs report a full disk in their own words; CheckSpace tells whether it was the disk.
func (d *Disk) CheckSpace(dir string) error {
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
	if _, err := f.Write(make([]byte, roomSize)); err != nil {
		return err
	}
	return f.Sync()
}
