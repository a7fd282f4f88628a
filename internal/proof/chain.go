package proof

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ErrChain means that a proofs.jsonl was changed after it was written, or belongs to another task. The message has file and line.
// Nothing is added to such a file.
var ErrChain = errors.New("chain of proofs damaged")

// Fault is the kind of a Finding.
type Fault string

const (
	Damaged  Fault = "damaged"  // a record was changed
	Broken   Fault = "broken"   // records were deleted, added or moved
	Replayed Fault = "replayed" // a record is of another task or run, or repeats an earlier one
	Stale    Fault = "stale"    // what was proven has changed since
	Missing  Fault = "missing"  // a required proof is missing
	Changed  Fault = "changed"  // kept output differs from the record, or was removed
)

// Finding is a fault that was found, with the line of the record if there is one.
type Finding struct {
	trellis.Problem
	Fault Fault  `json:"fault"`
	Step  string `json:"step"` // path of ids
}

// entry is one line of the file.
type entry struct {
	proof       Proof
	contentHash string   // hash of the current content; "" if the line can't be read
	finding     *Finding // nil: the record is unchanged and in its place
}

// chain is the content of a proofs.jsonl.
type chain struct {
	entries   []entry
	byKey     map[[2]string]int // index of each run and activity
	byHash    map[string]int    // index of each record, by the hash that it states
	lastOfRun map[string]int    // index of each run's last record
}

// readChain reads the records of task and checks each by itself and by its position. If task is "", that of the first record is
// used. runs are the runs of the task, nil if they are not known.
func readChain(data []byte, task string, runs []string) *chain {
	c := &chain{byKey: map[[2]string]int{}, byHash: map[string]int{}, lastOfRun: map[string]int{}}
	for line := range bytes.Lines(data) {
		c.entries = append(c.entries, readEntry(line, len(c.entries)+1))
	}
	for i, e := range c.entries {
		if _, again := c.byHash[e.proof.Hash]; e.proof.Hash != "" && !again {
			c.byHash[e.proof.Hash] = i
		}
	}
	if task == "" && len(c.entries) > 0 {
		task = c.entries[0].proof.Task
	}
	for i := range c.entries {
		e := &c.entries[i]
		if e.finding == nil {
			e.finding = c.misplacedFinding(i, task, runs)
		}
		if e.contentHash != "" {
			c.index(i)
		}
	}
	return c
}

func readEntry(line []byte, n int) entry {
	text, whole := bytes.CutSuffix(line, []byte("\n"))
	p, err := parseProof(text)
	if err == nil && !whole {
		err = errors.New("it has no end: the file was cut off here")
	} else if !whole {
		err = fmt.Errorf("the file was cut off here: %w", err)
	}
	p.Line = n
	e := entry{proof: p}
	if err != nil {
		e.finding = newFinding(Damaged, p, "%v", err)
	}
	e.contentHash, _ = p.contentHash() // if the hash can't be computed, the record is damaged anyway
	if p.Hash == "" {
		e.contentHash = ""
	}
	return e
}

func newFinding(f Fault, p Proof, format string, args ...any) *Finding {
	return &Finding{Problem: trellis.Problem{Line: p.Line, Message: fmt.Sprintf(format, args...)}, Fault: f, Step: p.Step}
}

// index makes a record known to the checks of later records.
func (c *chain) index(i int) {
	p := c.entries[i].proof
	if _, there := c.byKey[p.key()]; !there {
		c.byKey[p.key()] = i
	}
	c.lastOfRun[p.Run] = i
}

func (p Proof) key() [2]string { return [2]string{p.Run, p.Activity} }

// misplacedFinding returns a finding if the record i, which is unchanged, does not belong at its position, and nil otherwise.
func (c *chain) misplacedFinding(i int, task string, runs []string) *Finding {
	p := c.entries[i].proof
	if p.Task != task {
		return newFinding(Replayed, p, "it is a record of task %s", p.Task)
	}
	if runs != nil && !slices.Contains(runs, p.Run) {
		return newFinding(Replayed, p, "it is a record of run %s, which is not a run of this task", p.Run)
	}
	if j, there := c.byKey[p.key()]; there {
		return newFinding(Replayed, p, "it repeats line %d: run %s has recorded %s before", j+1, p.Run, p.Activity)
	}
	if bad := c.outOfOrderFinding(i); bad != nil {
		return bad
	}
	if j, there := c.lastOfRun[p.Run]; there && c.entries[i-1].proof.Run != p.Run && c.entries[i-1].finding == nil {
		return newFinding(Replayed, p, "it is a record of run %s, which ended with line %d", p.Run, j+1)
	}
	return nil
}

// outOfOrderFinding returns a finding if the record i does not follow the record before it, and nil otherwise.
func (c *chain) outOfOrderFinding(i int) *Finding {
	p := c.entries[i].proof
	if i == 0 && p.Previous == "" || i > 0 && (p.Previous == c.entries[i-1].proof.Hash || p.Previous == c.entries[i-1].contentHash) {
		return nil
	}
	j, known := c.byHash[p.Previous]
	switch {
	case p.Previous == "":
		return newFinding(Broken, p, "it is the first record of a chain: what comes before it was added or moved")
	case known && j > i:
		return newFinding(Broken, p, "it was moved: it follows the record that is now in line %d", j+1)
	case known:
		return newFinding(Broken, p, "it follows line %d: what is between them was added or moved", j+1)
	case i == 0:
		return newFinding(Broken, p, "it is not the first record of its chain: those before it were deleted")
	case c.entries[i-1].finding != nil && c.entries[i-1].finding.Fault == Damaged:
		return nil // it follows the original of the damaged record
	}
	return newFinding(Broken, p, "it does not follow line %d: a record between them was deleted, or that one was replaced", i)
}

func (c *chain) findings() (list []Finding) {
	for _, e := range c.entries {
		if e.finding != nil {
			list = append(list, *e.finding)
		}
	}
	return list
}

// validProofs returns the records without a fault.
func (c *chain) validProofs() (list []Proof) {
	for _, e := range c.entries {
		if e.finding == nil {
			list = append(list, e.proof)
		}
	}
	return list
}

// head returns the hash of the last record, or "" if there is none.
func (c *chain) head() string {
	if len(c.entries) == 0 {
		return ""
	}
	return c.entries[len(c.entries)-1].proof.Hash
}

// ReadProofs returns the records of dir that have no fault in themselves, in order, and a problem for each of the others. Verify
// tells whether they prove the current state. Without a file there are no records.
func ReadProofs(dir string) ([]Proof, []trellis.Problem, error) {
	data, err := readProofs(dir)
	if err != nil {
		return nil, nil, err
	}
	c := readChain(data, "", nil)
	var problems []trellis.Problem
	for _, f := range c.findings() {
		f.File = filepath.Join(dir, ProofsFile)
		problems = append(problems, f.Problem)
	}
	return c.validProofs(), problems, nil
}

// writerWait limits how long a reader waits for a record that is being written, which usually takes milliseconds.
const writerWait = 10 * time.Second

// readProofs reads the file. If the last line has no newline, it may be being written, and readProofs waits for the rest.
func readProofs(dir string) ([]byte, error) {
	path := filepath.Join(dir, ProofsFile)
	var before []byte
	for end := time.Now().Add(writerWait); ; time.Sleep(time.Millisecond) {
		written := durable.Held(path) // checked before the file is read: the writer may finish in between
		data, err := durable.ReadRecords(dir, ProofsFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading proofs: %w", err)
		}
		settled := !written && bytes.Equal(data, before)
		if settled || bytes.HasSuffix(data, []byte("\n")) || time.Now().After(end) {
			return data, nil
		}
		before = data
	}
}
