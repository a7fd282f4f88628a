package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Chain adds records to the proofs.jsonl of one directory. It caches what it has read, so that a long run does not read
// everything again for every step. Its methods may be called concurrently, and several processes take turns by a lock.
type Chain struct {
	Disk *durable.Disk // nil: the real disk
	Dir  string        // directory of the task or run

	mu     sync.Mutex
	chain  *chain      // the content as of info; nil: has to be read
	info   os.FileInfo // nil: there is no file
	synced bool        // the whole file survives a power cut
}

// Append adds records, gives them their place in the chain, and returns them as they are in the file. They are synced to disk
// when Append returns, with a single sync for all. There is one record per run and activity: if it exists already, from before a
// crash, it is returned and nothing is added.
//
// The rest of a last line that a power cut interrupted is removed first. Any other fault of the file is an ErrChain, and so is a
// record of another task, or one of a run that another run has followed. After an error none of the records was added, except
// that all may have been if only the folder could not be synced; calling Append again tells.
func (c *Chain) Append(list ...Proof) ([]Proof, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var written []Proof
	err := withWriteLock(c.Disk, c.Dir, func() (err error) {
		if err = c.load(); err == nil {
			written, err = c.add(list)
		}
		if err != nil {
			c.chain = nil // the next call finds out what is on disk
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("adding proof: %w", err)
	}
	return written, nil
}

// List returns the records of the file, nil if there is no file. As in Append, the rest of an interrupted last line is removed
// first, and any other fault is an ErrChain.
func (c *Chain) List() (list []Proof, err error) {
	if !durable.Exists(c.path()) {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err = withWriteLock(c.Disk, c.Dir, func() (err error) {
		if err = c.load(); err != nil {
			c.chain = nil
			return err
		}
		list = c.chain.validProofs()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading proofs: %w", err)
	}
	return list, nil
}

func (c *Chain) path() string { return filepath.Join(c.Dir, ProofsFile) }

// load reads the file, unless it is unchanged since this Chain last read or wrote it.
func (c *Chain) load() error {
	info, err := os.Lstat(c.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.chain != nil && sameFile(info, c.info) {
		return nil
	}
	data, err := durable.ReadRecords(c.Dir, ProofsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole := withoutTornEnd(data)
	read := readChain(whole, "", nil)
	if bad := read.findings(); bad != nil {
		return fmt.Errorf("%s:%d: %w: %s", c.path(), bad[0].Line, ErrChain, bad[0].Message)
	}
	if !bytes.Equal(whole, data) {
		if err := c.Disk.WriteFile(c.path(), whole, 0o644); err != nil {
			return err
		}
	}
	c.chain, c.synced = read, false
	return c.remember()
}

// remember stores the current state of the file, by which load detects changes.
func (c *Chain) remember() (err error) {
	if c.info, err = os.Lstat(c.path()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// withoutTornEnd returns data without the rest of a last line that a power cut interrupted: a part of the line, or pages that
// never reached the disk and read as zeros. If only the newline is missing, it is added.
func withoutTornEnd(data []byte) []byte {
	begin := bytes.LastIndexByte(bytes.TrimSuffix(data, []byte("\n")), '\n') + 1
	last := data[begin:]
	switch {
	case bytes.IndexByte(last, 0) >= 0:
		return data[:begin]
	case len(last) == 0 || last[len(last)-1] == '\n':
		return data
	case !json.Valid(last):
		return data[:begin]
	}
	return append(bytes.Clone(data), '\n')
}

func (c *Chain) add(list []Proof) (written []Proof, err error) {
	var lines []byte
	for _, p := range list {
		i, there := c.chain.byKey[p.key()]
		if !there {
			line, err := c.chain.extend(p)
			if err != nil {
				return nil, err
			}
			lines, i = append(lines, line...), len(c.chain.entries)-1
		} else if err := checkSameWork(c.chain.entries[i].proof, p); err != nil {
			return nil, err
		}
		written = append(written, c.chain.entries[i].proof)
	}
	if len(lines) == 0 {
		return written, c.syncExisting()
	}
	if err := c.Disk.Append(c.path(), lines, 0o644); err != nil {
		return nil, err
	}
	c.synced = true
	return written, c.remember()
}

// extend adds p to the end of the chain and returns its line.
func (c *chain) extend(p Proof) ([]byte, error) {
	p, line, err := p.seal(c.head())
	if err != nil {
		return nil, err
	}
	p.Line = len(c.entries) + 1
	task := p.Task
	if len(c.entries) > 0 {
		task = c.entries[0].proof.Task
	}
	c.entries = append(c.entries, entry{proof: p, contentHash: p.Hash})
	i := len(c.entries) - 1
	if bad := c.misplacedFinding(i, task, nil); bad != nil {
		return nil, fmt.Errorf("%w: %s", ErrChain, bad.Message)
	}
	c.byHash[p.Hash] = i
	c.index(i)
	return line, nil
}

// checkSameWork returns an error if an existing record can't be that of p. Times and results may differ.
func checkSameWork(old, p Proof) error {
	if old.Task == p.Task && old.Step == p.Step && old.StepHash == p.StepHash && old.Kind == p.Kind {
		return nil
	}
	return fmt.Errorf("%w: line %d is another record of %s in run %s", ErrChain, old.Line, p.Activity, p.Run)
}

// syncExisting makes sure that existing records survive a power cut: the process that wrote them may have died before its sync.
func (c *Chain) syncExisting() error {
	if c.synced || c.info == nil {
		return nil
	}
	if err := c.Disk.Step("sync", c.path()); err != nil {
		return err
	}
	f, err := durable.OpenOwn(c.path(), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := c.Disk.SyncDir(c.Dir); err != nil {
		return err
	}
	c.synced = true
	return nil
}
