package app

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// DoorKey is a secret of the person for this project, by which a page knows who may come in. It is made when it is first
// asked for and stays the same until its file is removed, so that a page that is open outlives the process that serves it.
// file is where it lies, which nobody else may read.
func (p *Project) DoorKey() (key, file string, err error) {
	sum := sha256.Sum256([]byte(p.Root))
	if file = p.Env.stateFile(filepath.Join("board", hex.EncodeToString(sum[:8]))); file == "" {
		return rand.Text() + rand.Text(), "", nil // without a home it is that of this process
	}
	data, err := durable.ReadOwn(file, durable.MaxDocument)
	if key = strings.TrimSpace(string(data)); err == nil && len(key) >= minKey {
		return key, file, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", file, fmt.Errorf("reading the board's key: %w", err)
	}
	key = rand.Text() + rand.Text()
	if err := p.Env.Disk.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", file, fmt.Errorf("keeping the board's key: %w", err)
	}
	return key, file, p.Env.Disk.WriteFile(file, []byte(key+"\n"), 0o600)
}

// minKey is how long a key is at least, in letters of five bits.
const minKey = 52
