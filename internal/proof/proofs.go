package proof

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"
)

const (
	// ProofsFile is the name of the file in a task directory.
	ProofsFile = "proofs.jsonl"
	// Final is the kind of the record that ends a delivery: the results on the committed tree.
	Final = "final"

	proofVersion = 1
	hashPrefix   = "sha256:"
)

// proofKinds are the kinds listed in docs/reference/proofs.md.
var proofKinds = []string{"script", "test", "lint", "build", "file", "manual", "composite", Final}

// Proof is one record of proofs.jsonl: the check of a step and its result. A record with an exit code other than 0 is kept but
// proves nothing. The fields are in the order of their keys, which is the canonical order.
type Proof struct {
	Activity string    `json:"activity"` // unique together with Run, which is the key of the record
	Began    time.Time `json:"began"`
	By       []string  `json:"by,omitempty"`      // manual: who approved
	Checks   []Check   `json:"checks,omitempty"`  // composite: its parts; final: its commands
	Command  string    `json:"command,omitempty"` // the command as it was run
	Commit   string    `json:"commit,omitempty"`  // commit of the worktree
	Ended    time.Time `json:"ended"`
	Exit     int       `json:"exit"`
	File     Digest    `json:"file,omitzero"` // file: digest of the file at that path of the worktree
	Hash     string    `json:"hash,omitempty"`
	Kind     string    `json:"kind"`
	PlanHash string    `json:"plan_hash,omitempty"`
	Previous string    `json:"previous"` // Hash of the previous record, "" in the first
	Run      string    `json:"run"`
	Session  string    `json:"session,omitempty"` // session of the agent
	Stderr   Digest    `json:"stderr,omitzero"`
	Stdout   Digest    `json:"stdout,omitzero"`
	Step     string    `json:"step,omitempty"` // path of ids, such as "build" or "each/item-2/build"; "" for a final
	StepHash string    `json:"step_hash,omitempty"`
	Task     string    `json:"task"`
	Tree     string    `json:"tree,omitempty"` // tree of everything in the worktree
	Version  int       `json:"v"`

	Line int `json:"-"` // line number in the file, from 1
}

// Check is one part of a composite proof, or one command of a final one.
type Check struct {
	Command string `json:"command,omitempty"`
	Exit    int    `json:"exit"`
	Kind    string `json:"kind"`
	Stderr  Digest `json:"stderr,omitzero"`
	Stdout  Digest `json:"stdout,omitzero"`
}

// Digest names the content of a file.
type Digest struct {
	Bytes  int64  `json:"bytes"`
	Path   string `json:"path,omitempty"` // below run/ for output; "" if it was not kept
	SHA256 string `json:"sha256"`
}

// canonicalJSON encodes v by the JSON Canonicalization Scheme (RFC 8785). It relies on keys being declared in order and on strings
// being valid UTF-8.
func canonicalJSON(v any) ([]byte, error) {
	raw, err := text.JSON(v)
	return plainSeparators(raw), err
}

// plainSeparators unescapes U+2028 and U+2029, which encoding/json always escapes for the sake of JavaScript.
func plainSeparators(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u202`)) {
		return text
	}
	var out []byte
	for i := 0; i < len(text); {
		switch {
		case bytes.HasPrefix(text[i:], []byte(`\u2028`)):
			out, i = append(out, "\u2028"...), i+6
		case bytes.HasPrefix(text[i:], []byte(`\u2029`)):
			out, i = append(out, "\u2029"...), i+6
		case text[i] == '\\':
			out, i = append(out, text[i:i+2]...), i+2
		default:
			out, i = append(out, text[i]), i+1
		}
	}
	return out
}

// contentHash returns the hash of all fields except Hash.
func (p Proof) contentHash() (string, error) {
	p.Hash = ""
	text, err := canonicalJSON(p)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hashPrefix + hex.EncodeToString(sum[:]), nil
}

// seal returns p as it will be read back, with its place in the chain, and the line for the file.
func (p Proof) seal(previous string) (Proof, []byte, error) {
	p.Previous, p.Hash, p.Version = previous, "", proofVersion
	p.Began, p.Ended = recordTime(p.Began), recordTime(p.Ended)
	text, err := canonicalJSON(p)
	if err != nil {
		return p, nil, err
	}
	var read Proof // now its strings are valid UTF-8
	if err := json.Unmarshal(text, &read); err != nil {
		return p, nil, err
	}
	if err := read.check(); err != nil {
		return p, nil, err
	}
	if read.Hash, err = read.contentHash(); err != nil {
		return p, nil, err
	}
	line, err := canonicalJSON(read)
	return read, append(line, '\n'), err
}

// recordTime returns t as records store it.
func recordTime(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// parseProof parses a line, without its newline. Only the exact bytes that were written are accepted. With an error it returns as
// much of the record as could be read, which is good only for finding out where the record belongs.
func parseProof(line []byte) (Proof, error) {
	var p Proof
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(&p)
	if err == nil {
		var same []byte
		if same, err = canonicalJSON(p); err == nil && bytes.Equal(same, line) {
			return p, p.verifyHash()
		}
	}
	return p, lineError(line, err)
}

// verifyHash returns an error if the content of a canonical record was changed.
func (p Proof) verifyHash() error {
	if p.Version != proofVersion {
		return fmt.Errorf("its version is %d, this trellis knows %d", p.Version, proofVersion)
	}
	sum, err := p.contentHash()
	if err != nil {
		return err
	}
	if sum != p.Hash {
		return errors.New("it was changed: its content and its hash disagree")
	}
	return p.check()
}

// lineError returns what is wrong with a line that is not canonical; err is the error of decoding it.
func lineError(line []byte, err error) error {
	var loose struct {
		V int `json:"v"`
	}
	if syntax := json.Unmarshal(line, new(json.RawMessage)); syntax != nil {
		return fmt.Errorf("not JSON: %w", syntax)
	}
	if json.Unmarshal(line, &loose) == nil && loose.V > proofVersion {
		return fmt.Errorf("its version is %d, this trellis knows %d", loose.V, proofVersion)
	}
	if key := duplicateKey(json.NewDecoder(bytes.NewReader(line))); key != "" {
		return fmt.Errorf("it was changed: it has the key %q twice", key)
	}
	if err != nil {
		return fmt.Errorf("it was changed: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return errors.New("it was changed: it is not spelled as it was written, in the canonical form")
}

// duplicateKey returns a key that occurs twice in an object within the next value of d, or "". The value is valid JSON.
func duplicateKey(d *json.Decoder) string {
	open, _ := d.Token()
	if open != json.Delim('{') && open != json.Delim('[') {
		return ""
	}
	seen := map[string]bool{}
	for d.More() {
		if open == json.Delim('{') {
			token, _ := d.Token()
			key, _ := token.(string)
			if seen[key] {
				return key
			}
			seen[key] = true
		}
		if key := duplicateKey(d); key != "" {
			return key
		}
	}
	d.Token()
	return ""
}

// check returns an error for a record with missing or invalid fields.
func (p Proof) check() error {
	switch {
	case !slices.Contains(proofKinds, p.Kind):
		return fmt.Errorf("the kind is %q, it must be one of %s", p.Kind, strings.Join(proofKinds, ", "))
	case p.Kind != Final && (p.Step == "" || p.StepHash == ""):
		return errors.New("it names no step, or not the step's hash")
	case p.Kind == Final && (p.Step != "" || p.StepHash != ""):
		return errors.New("a final proof is of no step")
	case p.Task == "" || p.Run == "" || p.Activity == "":
		return errors.New("it must name task, run and activity")
	case p.Began.IsZero() || p.Ended.IsZero():
		return errors.New("it does not say when it began and ended")
	case p.Began != recordTime(p.Began) || p.Ended != recordTime(p.Ended):
		return errors.New("its times must be in UTC and whole milliseconds")
	}
	for _, c := range p.Checks {
		if !slices.Contains(proofKinds, c.Kind) || c.Kind == Final {
			return fmt.Errorf("the kind of a check is %q", c.Kind)
		}
	}
	for _, d := range append(p.Outputs(), p.File) {
		if err := d.check(); err != nil {
			return err
		}
	}
	return nil
}

func (d Digest) check() error {
	if d == (Digest{}) {
		return nil
	}
	if !isSHA256(d.SHA256) || d.Bytes < 0 {
		return fmt.Errorf("%+v is not a digest", d)
	}
	if d.Path != "" && (!fs.ValidPath(d.Path) || d.Path == ".") {
		return fmt.Errorf("the path %q must be relative, with single slashes and without dots", d.Path)
	}
	return nil
}

// isSHA256 reports whether s is a SHA-256 hash in the form used here, lower-case hex.
func isSHA256(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// Outputs are the digests of what commands wrote.
func (p Proof) Outputs() []Digest {
	list := []Digest{p.Stdout, p.Stderr}
	for _, c := range p.Checks {
		list = append(list, c.Stdout, c.Stderr)
	}
	return list
}

func digest(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
