package compat

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
)

// archive is one recorded case: its result, and the files of its world at each moment at which it is cut off. testdata/README.md
// describes the format.
type archive struct {
	want  map[string]string
	cuts  []cut
	texts map[string]string // by key
}

// cut is the world at one moment.
type cut struct {
	name  string
	files []file
}

// file is one file of a cut: a whole text, or if lines > 0 that many lines of it, from the first.
type file struct {
	path, key string
	mode      fs.FileMode
	lines     int
}

const (
	rootMark = "@ROOT@" // replaces the path of the world's folder
	endMark  = "@END@"  // follows a text that does not end with a line feed
	gone     = "gone"   // the key of a file that no longer exists
)

// reworded replaces what effects and flow code say in other words than when the runs were recorded. A run that is updated in the
// middle only has to keep the names of activities.
var reworded = strings.NewReplacer("` ended with ", "` exited with ")

func readArchive(t *testing.T, name string) *archive {
	t.Helper()
	raw, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{want: map[string]string{}, texts: map[string]string{}}
	for _, f := range raw.Files {
		kind, rest, _ := strings.Cut(f.Name, " ")
		switch text := string(f.Data); kind {
		case "want":
			for line := range strings.Lines(text) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				a.want[key] = value
			}
		case "cut":
			a.cuts = append(a.cuts, a.readCut(t, rest, text))
		case "text":
			if before, cut := strings.CutSuffix(text, endMark+"\n"); cut {
				text = before
			}
			a.texts[rest] = text
		}
	}
	return a
}

// readCut reads a cut from its differences from the cut before.
func (a *archive) readCut(t *testing.T, name, text string) cut {
	t.Helper()
	c := cut{name: name}
	if n := len(a.cuts); n > 0 {
		c.files = slices.Clone(a.cuts[n-1].files)
	}
	for line := range strings.Lines(text) {
		var f file
		if _, err := fmt.Sscan(line, &f.mode, &f.key, &f.lines, &f.path); err != nil {
			t.Fatalf("cut %s: %q: %v", name, line, err)
		}
		c.files = slices.DeleteFunc(c.files, func(old file) bool { return old.path == f.path })
		if f.key != gone {
			c.files = append(c.files, f)
		}
	}
	return c
}

// changes returns the lines for the differences of a cut from the cut before.
func (c cut) changes(before cut) string {
	var now, lines []string
	add := func(f file) { lines = append(lines, fmt.Sprintln(uint32(f.mode), f.key, f.lines, f.path)) }
	for _, f := range c.files {
		if now = append(now, f.path); !slices.Contains(before.files, f) {
			add(f)
		}
	}
	for _, f := range before.files {
		if !slices.Contains(now, f.path) {
			add(file{path: f.path, key: gone})
		}
	}
	return strings.Join(lines, "")
}

// lay creates the world of a cut.
func (a *archive) lay(w *world, c cut) {
	w.Helper()
	for _, f := range c.files {
		text, there := a.texts[f.key]
		if !there {
			w.Fatalf("cut %s: there is no text %s for %s", c.name, f.key, f.path)
		}
		if f.lines > 0 {
			text = strings.Join(strings.SplitAfterN(text, "\n", f.lines+1)[:f.lines], "")
		}
		text = strings.ReplaceAll(text, rootMark, w.Root)
		switch {
		case isObject(f.path):
			text = string(packObject(w.T, f.path, text))
		case isJournal(f.path):
			text = chained(reworded.Replace(text))
		}
		w.write(f.path, text)
		if err := os.Chmod(w.path(f.path), f.mode); err != nil {
			w.Fatal(err)
		}
	}
	for _, f := range c.files { // an index holds times of this machine: a new one has the same content
		if filepath.Base(f.path) == "HEAD" && filepath.Base(filepath.Dir(filepath.Dir(f.path))) == "worktrees" {
			w.git(strings.TrimSuffix(strings.TrimPrefix(w.read(filepath.Dir(f.path)+"/gitdir"), w.Root+"/"), "/.git\n"), "read-tree", "HEAD")
		}
	}
	w.git("repo", "read-tree", "HEAD")
}

// chained gives each line of a journal the hash of the line before.
func chained(journal string) string {
	var out strings.Builder
	prev := ""
	for line := range strings.Lines(journal) {
		line = strings.TrimSuffix(line, "}\n") + `,"p":"` + prev + `"}`
		sum := sha256.Sum256([]byte(line))
		prev = hex.EncodeToString(sum[:16])
		out.WriteString(line + "\n")
	}
	return out.String()
}

func unchained(journal string) string { return chain.ReplaceAllString(journal, "}") }

var (
	chain  = regexp.MustCompile(`(?m),"p":"[0-9a-f]*"}$`)
	object = regexp.MustCompile(`\.git/objects/([0-9a-f]{2})/([0-9a-f]{38})$`)
	logged = regexp.MustCompile(`run/journal(\.\d+)?\.jsonl$`)
)

func isObject(path string) bool  { return object.MatchString(path) }
func isJournal(path string) bool { return logged.MatchString(path) }

// A git object is stored with its kind in a line of its own, and the content of a tree as git ls-tree prints it.

func unpackObject(t *testing.T, data []byte) string {
	t.Helper()
	r, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := bytes.Cut(raw, []byte{0})
	kind, _, _ := strings.Cut(string(head), " ")
	if kind != "tree" {
		return kind + "\n" + string(body)
	}
	text := "tree\n"
	for len(body) > 0 {
		entry, rest, _ := bytes.Cut(body, []byte{0})
		mode, name, _ := strings.Cut(string(entry), " ")
		text += fmt.Sprintf("%s %x\t%s\n", mode, rest[:sha1.Size], name)
		body = rest[sha1.Size:]
	}
	return text
}

func packObject(t *testing.T, path, text string) []byte {
	t.Helper()
	kind, body, _ := strings.Cut(text, "\n")
	if kind == "tree" {
		var tree strings.Builder
		for line := range strings.Lines(body) {
			entry, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			mode, id, _ := strings.Cut(entry, " ")
			sum, err := hex.DecodeString(id)
			if err != nil {
				t.Fatal(err)
			}
			tree.WriteString(mode + " " + name + "\x00" + string(sum))
		}
		body = tree.String()
	}
	raw := fmt.Appendf(nil, "%s %d\x00%s", kind, len(body), body)
	name := object.FindStringSubmatch(path)
	if sum := sha1.Sum(raw); hex.EncodeToString(sum[:]) != name[1]+name[2] {
		t.Fatalf("%s does not hold what its name says: %q", path, text)
	}
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// put adds a text and returns its key.
func (a *archive) put(text string) string {
	sum := sha256.Sum256([]byte(text))
	key := hex.EncodeToString(sum[:5])
	a.texts[key] = text
	return key
}

// save writes the archive to its file.
func (a *archive) save(t *testing.T, name string) {
	t.Helper()
	out := &txtar.Archive{Comment: []byte("Recorded: see README.md.\n")}
	add := func(name, text string) { out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(text)}) }
	var said []string
	for key, value := range a.want {
		said = append(said, key+" "+value+"\n")
	}
	slices.Sort(said)
	add("want", strings.Join(said, ""))
	before := cut{}
	for _, c := range a.cuts {
		add("cut "+c.name, c.changes(before))
		before = c
	}
	var keys []string
	for key := range a.texts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		text := a.texts[key]
		if !utf8.ValidString(text) || strings.Contains(text, endMark) || strings.Contains("\n"+text, "\n-- ") {
			t.Fatalf("this can't be kept as a text: %q", text)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += endMark + "\n"
		}
		add("text "+key, text)
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".txtar"), txtar.Format(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
