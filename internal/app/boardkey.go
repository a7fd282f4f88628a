package app

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// BoardKey returns the person's secret for the project at root, by which the board authenticates visitors. It is created on
// first use and stays the same until its file is removed, so that an open page outlives the process that serves it. The file is
// in the person's state folder, which nobody else may read.
func (e *Env) BoardKey(root string) (string, error) {
	file := e.boardFile(root)
	if file == "" {
		return rand.Text() + rand.Text(), nil // without a home directory the key lasts as long as this process
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
	return key, e.writeBoardFile(file, key+"\n")
}

// BoardDoor creates a file that redirects a browser to the board of the project at root. Its url holds the key, which in a
// browser's arguments would be visible to all users of the machine; the file is next to the key's and as private.
func (e *Env) BoardDoor(root, url string) (file string, err error) {
	if file = e.boardFile(root); file == "" {
		return "", errors.New("opening the browser: there is no home to keep a file in")
	}
	file += ".html"
	to := html.EscapeString(url)
	return file, e.writeBoardFile(file, `<!doctype html><meta charset="utf-8"><title>trellis board</title><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=`+to+`"><a href="`+to+`">trellis board</a>`+"\n")
}

// boardFile returns the path of the board's key for the project at root, "" if there is no home directory.
func (e *Env) boardFile(root string) string {
	sum := sha256.Sum256([]byte(root))
	return e.stateFile(filepath.Join("board", hex.EncodeToString(sum[:8])))
}

func (e *Env) writeBoardFile(file, text string) error {
	if err := e.Disk.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("keeping the board's key: %w", err)
	}
	return e.Disk.WriteFile(file, []byte(text), 0o600)
}

// minKey is the minimum length of a key, in letters of five bits.
const minKey = 52
