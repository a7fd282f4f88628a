// Package proof keeps what speaks for a task. approvals.jsonl has what people decided, each line bound to
// the hash of what was decided on. proofs.jsonl has what was checked, in a chain of hashes: whoever changes a
// record, deletes, adds or moves one, or changes what it was about, is found out by Verify.
package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	// ApprovalsFile is the file's name in a task directory.
	ApprovalsFile = "approvals.jsonl"
	runDir        = "run"
	writeLock     = "write.lock"
	lockWait      = 10 * time.Second
	bom           = "\ufeff"
)

// Decision is what a person said.
type Decision string

const (
	Approve Decision = "approve"
	Reject  Decision = "reject"
)

// Approval is one decision: a line of approvals.jsonl.
type Approval struct {
	Step      string // id of a step of the plan; "" is the plan itself
	Decision  Decision
	By        string
	Reason    string
	At        time.Time // zero when a line written by hand does not say
	Hash      string    // of what was decided on; "" on a line by hand until Bind
	ExpiresAt time.Time // zero: never
	Account   string    // that it was said with, as USER@HOST; "" on a line by hand
	Key       string    // that it is signed with, see Sign; "": none
	Sig       []byte
	Line      int    // in the file, from 1
	Text      string // of that line
	Voter     string // whose it is for who counts people; "": that of Account or By
}

// record is an Approval as the file spells it.
type record struct {
	Step      string     `json:"step"`
	Decision  Decision   `json:"decision"`
	By        string     `json:"by"`
	Reason    string     `json:"reason"`
	At        *time.Time `json:"at"`
	Hash      string     `json:"hash"`
	ExpiresAt *time.Time `json:"expires_at"`
	Account   string     `json:"account,omitempty"`
	Key       string     `json:"key,omitempty"`
	Sig       []byte     `json:"sig,omitempty"` // base64
}

// Read returns the decisions about the task in dir, in the order in which they were written. A line that
// is no decision is a problem and does not count. No file is no decision.
func Read(dir string) ([]Approval, []trellis.Problem, error) {
	data, err := durable.ReadRecords(dir, ApprovalsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading approvals: %w", err)
	}
	list, problems := parse(filepath.Join(dir, ApprovalsFile), data)
	return list, problems, nil
}

func parse(file string, data []byte) (list []Approval, problems []trellis.Problem) {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		a, err := parseLine(line)
		if err != nil {
			p := trellis.Problem{File: file, Line: n, Message: err.Error(),
				Hint: `a decision is written as {"step": "", "decision": "approve", "by": "your name", "reason": ""}`}
			if trellis.ConflictMark(string(line)) {
				p.Message, p.Hint = trellis.MergeConflict, trellis.MendMergeConflict
			}
			problems = append(problems, p)
			continue
		}
		a.Line, a.Text = n, string(bytes.TrimSpace(line))
		list = append(list, a)
	}
	return list, problems
}

func parseLine(line []byte) (Approval, error) {
	var r record
	if err := json.Unmarshal(bytes.TrimPrefix(line, []byte(bom)), &r); err != nil {
		return Approval{}, fmt.Errorf("not a decision: %w", err)
	}
	a := Approval{Step: r.Step, Decision: r.Decision, By: strings.TrimSpace(r.By), Reason: r.Reason, Hash: r.Hash,
		Account: r.Account, Key: r.Key, Sig: r.Sig}
	if r.At != nil {
		a.At = *r.At
	}
	if r.ExpiresAt != nil {
		a.ExpiresAt = *r.ExpiresAt
	}
	return a, a.check()
}

func (a Approval) check() error {
	if a.Decision != Approve && a.Decision != Reject {
		return fmt.Errorf("the decision is %q, it must be %q or %q", a.Decision, Approve, Reject)
	}
	if a.By == "" {
		return errors.New("a decision must name who took it, in \"by\"")
	}
	return nil
}

// encode is the decision as a line of the file, with its newline.
func (a Approval) encode() ([]byte, error) {
	r := record{Step: a.Step, Decision: a.Decision, By: a.By, Reason: a.Reason, Hash: a.Hash, At: stamp(a.At), ExpiresAt: stamp(a.ExpiresAt),
		Account: a.Account, Key: a.Key, Sig: a.Sig}
	line, err := text.JSON(r)
	return append(line, '\n'), err
}

func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

// Append adds a decision to the task in dir. It is on disk when Append returns. Of several processes
// that append at once the first one to write stands first. Behind a line that is no decision nothing is
// added: the error is its *trellis.Problem.
func Append(disk *durable.Disk, dir string, a Approval) error {
	a.By = strings.TrimSpace(a.By)
	if err := a.check(); err != nil {
		return fmt.Errorf("adding approval: %w", err)
	}
	line, err := a.encode()
	if err != nil {
		return fmt.Errorf("adding approval: %w", err)
	}
	return locked(disk, dir, func() error {
		file := filepath.Join(dir, ApprovalsFile)
		data, err := durable.ReadRecords(dir, ApprovalsFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, problems := parse(file, whole(data)); len(problems) > 0 {
			return &problems[0]
		}
		return disk.Append(file, line, 0o644)
	})
}

// whole is data without a last line whose write was cut off, which the next one takes the place of.
func whole(data []byte) []byte {
	begin := bytes.LastIndexByte(data, '\n') + 1
	err := json.NewDecoder(bytes.NewReader(data[begin:])).Decode(new(any))
	if errors.Is(err, io.ErrUnexpectedEOF) || bytes.IndexByte(data[begin:], 0) >= 0 { // which is what a power cut leaves
		return data[:begin]
	}
	return data
}

// Bind gives every line that has no hash, as people write them, the one that hash returns for it, unless
// that is "", and reports how many lines got one. What else such a line says stays as it is; other lines keep
// their bytes. An error of hash leaves the file as it was.
func Bind(disk *durable.Disk, dir string, hash func(Approval) (string, error)) (bound int, err error) {
	err = locked(disk, dir, func() error {
		return disk.Edit(filepath.Join(dir, ApprovalsFile), func(data []byte) (out []byte, err error) {
			out, bound, err = bind(data, hash)
			return out, err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("binding approvals: %w", err)
	}
	return bound, nil
}

func bind(data []byte, hash func(Approval) (string, error)) (out []byte, bound int, err error) {
	for line := range bytes.Lines(data) {
		if a, parseErr := parseLine(line); parseErr == nil && a.Hash == "" {
			a.Text = string(bytes.TrimSpace(line))
			h, err := hash(a)
			if err != nil {
				return nil, 0, err
			}
			if h != "" {
				line = bindLine(line, h)
				bound++
			}
		}
		out = append(out, line...)
	}
	return out, bound, nil
}

// bindLine gives the object on a line its hash: in the place of an empty one, or at its end.
func bindLine(line []byte, hash string) []byte {
	value, _ := json.Marshal(hash) // a string has a JSON form
	begin, end := emptyHash(line)
	if begin == end {
		value = append([]byte(`, "hash": `), value...)
	}
	return slices.Concat(line[:begin], value, line[end:])
}

// emptyHash is where the value of "hash" stands on a line; begin and end are the end of the object
// when there is none.
func emptyHash(line []byte) (begin, end int) {
	mark := len(line) - len(bytes.TrimPrefix(line, []byte(bom)))
	d := json.NewDecoder(bytes.NewReader(line[mark:]))
	d.Token() // the line was parsed before, so that there are no errors to look for
	for d.More() {
		key, _ := d.Token()
		var value json.RawMessage
		d.Decode(&value)
		if name, ok := key.(string); ok && strings.EqualFold(name, "hash") {
			begin, end = mark+int(d.InputOffset())-len(value), mark+int(d.InputOffset())
		}
	}
	if end == 0 {
		end = bytes.LastIndexByte(line, '}')
		begin = end
	}
	return begin, end
}

// locked runs do under the task's write lock, which all who change the task's files take.
func locked(disk *durable.Disk, dir string, do func() error) error {
	run := filepath.Join(dir, runDir)
	if err := durable.RealFolder(run); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Not MkdirAll: a task directory that is gone must not come back.
	if err := disk.Mkdir(run, 0o700); err == nil {
		if err := disk.WriteFile(filepath.Join(run, ".gitignore"), []byte("*\n"), 0o600); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := durable.WaitLockFor(filepath.Join(run, writeLock), durable.Holder{PID: os.Getpid(), Since: time.Now()}, lockWait)
	if err != nil {
		return err
	}
	return errors.Join(do(), lock.Unlock())
}
