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

// BoardKey is the person's secret for the project at root, by which the board knows who may come in. It is made when it is
// first asked for and stays the same until its file is removed, so that a page that is open outlives the process that
// serves it. The file is in the person's folder of state, which nobody else may read.
func (e *Env) BoardKey(root string) (string, error) {
	sum := sha256.Sum256([]byte(root))
	file := e.stateFile(filepath.Join("board", hex.EncodeToString(sum[:8])))
	if file == "" {
		return rand.Text() + rand.Text(), nil // without a home it is that of this process
	}
	data, err := durable.ReadOwn(file, durable.MaxDocument)
	key := strings.TrimSpace(string(data))
	if err == nil && len(key) >= minKey {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the board's key: %w", err)
	}
	key = rand.Text() + rand.Text()
	if err := e.Disk.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", fmt.Errorf("keeping the board's key: %w", err)
	}
	return key, e.Disk.WriteFile(file, []byte(key+"\n"), 0o600)
}

// minKey is how long a key is at least, in letters of five bits.
const minKey = 52
