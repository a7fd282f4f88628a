package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// TreeFile is a file of a commit.
type TreeFile struct {
	Path string // with slashes
	Mode uint32 // git's mode: 0o100644, 0o100755, 0o120000 a link, 0o160000 a submodule
	Blob string // hash, "" before it is written
	Data []byte
}

// CommitFiles creates a commit without parents that holds exactly these files, byte for byte, whatever attributes and settings
// say, and sets ref to it, wherever ref was. Content that is in the repository already is not written again.
func (r Trees) CommitFiles(ctx context.Context, ref, message string, at time.Time, files []TreeFile) (string, error) {
	err := r.repo.Refs().withRetries(ctx, r.repo.Refs().locks(ref), func() error {
		return r.repo.Do(ctx, Command{Dir: r.repo.Main, Write: true, Once: true, Stdin: r.importStream(ref, message, at, files),
			Args: []string{"fast-import", "--quiet", "--force", "--done", "--date-format=raw"}})
	})
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", ref, err)
	}
	commit, _, err := r.repo.Refs().readRef(ctx, r.repo.Common, ref)
	return commit, err
}

// importStream returns the input from which git fast-import creates the commit.
func (r Trees) importStream(ref, message string, at time.Time, files []TreeFile) io.Reader {
	newHash, _ := r.repo.hashFormat()
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit %s\ncommitter trellis <trellis@localhost> %d +0000\ndata %d\n%s\n", ref, at.Unix(), len(message), message)
	for _, f := range files {
		if blob := hashObject("blob", f.Data, newHash); r.keepFreshLoose(blob) { // git checks its packs itself
			fmt.Fprintf(&in, "M %o %x %s\n", f.Mode, blob, importPath(f.Path))
			continue
		}
		fmt.Fprintf(&in, "M %o inline %s\ndata %d\n%s\n", f.Mode, importPath(f.Path), len(f.Data), f.Data)
	}
	in.WriteString("done\n")
	return &in
}

// keepFreshLoose reports whether the repository itself has an object as a loose file. It renews the time of an old file, so that git gc
// doesn't remove the object, which may be unreachable, before a ref leads to it.
func (r Trees) keepFreshLoose(hash []byte) bool {
	const young = 24 * time.Hour // gc removes unreachable objects that are older than two weeks
	file := looseFile(r.repo.Common, hash)
	st, err := os.Lstat(file)
	if err != nil || time.Since(st.ModTime()) < young {
		return err == nil
	}
	now := time.Now()
	return os.Chtimes(file, now, now) == nil
}

// importPath quotes a path for git fast-import.
func importPath(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// Files lists the files of a commit, without their content.
func (r Trees) Files(ctx context.Context, commit string) (files []TreeFile, err error) {
	list, err := r.repo.lsTree(ctx, Command{Dir: r.repo.Main}, commit, []string{"-r"})
	if err != nil {
		return nil, fmt.Errorf("listing the files of %.12s: %w", commit, err)
	}
	for _, e := range list {
		files = append(files, TreeFile{Path: e.path, Mode: e.mode, Blob: hex.EncodeToString(e.hash)})
	}
	return files, nil
}

// Fill reads the content of files. It returns durable.ErrTooLarge if a file has more than most bytes, or all files together more
// than all bytes.
func (r Trees) Fill(ctx context.Context, files []TreeFile, most, all int64) error {
	if len(files) == 0 {
		return nil
	}
	var names strings.Builder
	for _, f := range files {
		names.WriteString(f.Blob + "\n")
	}
	wrong, err := r.catFiles(ctx, names.String(), func(in *bufio.Reader) error { return r.fill(in, files, most, all) })
	if wrong != nil && (err == nil || !errors.Is(wrong, io.ErrUnexpectedEOF)) {
		return wrong
	}
	return err
}

// catFiles has git write the objects of names, one per line, and calls read with them. wrong is the error of read, err that of
// git.
func (r Trees) catFiles(ctx context.Context, names string, read func(*bufio.Reader) error) (wrong, err error) {
	in, out := io.Pipe()
	found := make(chan error, 1)
	go func() {
		err := read(bufio.NewReader(in))
		found <- errors.Join(err, in.CloseWithError(err)) // so that git ends, too
	}()
	err = r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(names), Stdout: out})
	out.Close()
	return <-found, err
}

// blobSize reads the line before a blob, which has its size.
func blobSize(in *bufio.Reader) (size int64, ok bool) {
	line, err := in.ReadString('\n')
	var name string
	_, scanErr := fmt.Sscanf(line, "%s blob %d\n", &name, &size)
	return size, err == nil && scanErr == nil
}

func (r Trees) fill(in *bufio.Reader, files []TreeFile, most, all int64) error {
	for i, f := range files {
		size, ok := blobSize(in)
		if !ok {
			return errors.Join(r.damagedError(f.Blob, f.Path), io.ErrUnexpectedEOF)
		}
		if all -= size; size > most || all < 0 {
			return &durable.FileError{Path: f.Path, Err: durable.ErrTooLarge, Max: min(most, size)}
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(in, data); err != nil {
			return fmt.Errorf("reading %s: %w", f.Path, err)
		}
		if BlobID(data, f.Blob) != f.Blob {
			return r.damagedError(f.Blob, f.Path)
		}
		files[i].Data = data
		if _, err := in.Discard(1); err != nil {
			return fmt.Errorf("reading %s: %w", f.Path, err)
		}
	}
	return nil
}
