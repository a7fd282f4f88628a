// Package proof keeps the evidence about a task. approvals.jsonl holds the decisions of people, each bound to the hash of its
// subject. proofs.jsonl holds the results of checks, in a hash chain: Verify detects records that were changed, deleted, added or
// moved, and changes of what they are about.
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
	// ApprovalsFile is the name of the file in a task directory.
	ApprovalsFile = "approvals.jsonl"
	runDir        = "run"
	writeLock     = "write.lock"
	lockWait      = 10 * time.Second
	bom           = "\ufeff"
)

// Decision is the decision of a person.
type Decision string

const (
	Approve Decision = "approve"
	Reject  Decision = "reject"
)

// Approval is one decision: a line of approvals.jsonl.
type Approval struct {
	Step      string // id of a step of the plan; "" means the plan itself
	Decision  Decision
	By        string
	Reason    string
	At        time.Time // zero if a line written by hand has no time
	Hash      string    // hash of the subject; "" on a line written by hand until Bind
	ExpiresAt time.Time // zero: never
	Account   string    // account of the person, as USER@HOST; "" on a line written by hand
	Key       string    // name of the key that signed it, see Sign; "": not signed
	Sig       []byte
	Line      int    // line number in the file, from 1
	Text      string // text of that line
	Voter     string // the person that the decision counts for; "": the one of Account or By
}

// record is an Approval as stored in the file.
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

// Read returns the decisions about the task in dir, in the order of the file. An invalid line is returned as a problem and does
// not count. Without a file there are no decisions.
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
			if trellis.IsConflictMark(string(line)) {
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

// encode returns the decision as a line of the file, with its newline.
func (a Approval) encode() ([]byte, error) {
	r := record{Step: a.Step, Decision: a.Decision, By: a.By, Reason: a.Reason, Hash: a.Hash, At: jsonTime(a.At), ExpiresAt: jsonTime(a.ExpiresAt),
		Account: a.Account, Key: a.Key, Sig: a.Sig}
	line, err := text.JSON(r)
	return append(line, '\n'), err
}

func jsonTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

// Append adds a decision to the task in dir. It is on disk when Append returns. If several processes append at once, the order is
// that of their writes. If the file has an invalid line, nothing is added, and the error is the *trellis.Problem of that line.
func Append(disk *durable.Disk, dir string, a Approval) error {
	a.By = strings.TrimSpace(a.By)
	if err := a.check(); err != nil {
		return fmt.Errorf("adding approval: %w", err)
	}
	line, err := a.encode()
	if err != nil {
		return fmt.Errorf("adding approval: %w", err)
	}
	return withWriteLock(disk, dir, func() error {
		file := filepath.Join(dir, ApprovalsFile)
		data, err := durable.ReadRecords(dir, ApprovalsFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, problems := parse(file, withoutUnfinishedLine(data)); len(problems) > 0 {
			return &problems[0]
		}
		return disk.Append(file, line, 0o644)
	})
}

// withoutUnfinishedLine returns data without a last line whose write was interrupted, which the next line replaces.
func withoutUnfinishedLine(data []byte) []byte {
	begin := bytes.LastIndexByte(data, '\n') + 1
	err := json.NewDecoder(bytes.NewReader(data[begin:])).Decode(new(any))
	if errors.Is(err, io.ErrUnexpectedEOF) || bytes.IndexByte(data[begin:], 0) >= 0 { // as a power cut leaves it
		return data[:begin]
	}
	return data
}

// Bind adds a hash to every line without one, as people write them: the result of hash for that line, unless it is "". It returns
// how many lines got one. Other contents of such a line, and all other lines, are kept unchanged. If hash returns an error, the
// file is not changed.
func Bind(disk *durable.Disk, dir string, hash func(Approval) (string, error)) (bound int, err error) {
	err = withWriteLock(disk, dir, func() error {
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

// bindLine adds the hash to the object on a line, in place of an empty one or at the end.
func bindLine(line []byte, hash string) []byte {
	value, _ := json.Marshal(hash) // a string can always be encoded
	begin, end := hashPosition(line)
	if begin == end {
		value = append([]byte(`, "hash": `), value...)
	}
	return slices.Concat(line[:begin], value, line[end:])
}

// hashPosition returns the position of the value of "hash" on a line. If there is none, begin and end are both the end of the
// object.
func hashPosition(line []byte) (begin, end int) {
	mark := len(line) - len(bytes.TrimPrefix(line, []byte(bom)))
	d := json.NewDecoder(bytes.NewReader(line[mark:]))
	d.Token() // the line has been parsed before, so there are no errors
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

// withWriteLock runs do while holding the task's write lock, which every writer of the task's files takes.
func withWriteLock(disk *durable.Disk, dir string, do func() error) error {
	run := filepath.Join(dir, runDir)
	if err := durable.RealFolder(run); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Not MkdirAll: a task directory that was removed must not come back.
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
