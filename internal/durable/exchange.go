package durable

import (
	"fmt"
	"os"
	"path/filepath"
)

// Exchange swaps the names of two files or folders, atomically where the file system can. Where it can't, a kill in between leaves
// nothing at b, and the former b next to it, with TempPrefix before its name.
func (d *Disk) Exchange(a, b string) error {
	if err := d.Step("rename", b); err != nil {
		return fmt.Errorf("exchanging %s and %s: %w", a, b, err)
	}
	err := exchange(a, b)
	if noExchange(err) {
		err = exchangeByThree(a, b)
	}
	if err != nil {
		return fmt.Errorf("exchanging %s and %s: %w", a, b, err)
	}
	if err := d.SyncDir(filepath.Dir(b)); err != nil || filepath.Dir(a) == filepath.Dir(b) {
		return err
	}
	return d.SyncDir(filepath.Dir(a))
}

func exchangeByThree(a, b string) error {
	aside := filepath.Join(filepath.Dir(b), TempPrefix+filepath.Base(b)+"-aside")
	if err := os.Rename(b, aside); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return err
	}
	return os.Rename(aside, a)
}
