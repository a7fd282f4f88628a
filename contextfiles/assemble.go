package contextfiles

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/text"
)

// Caps limits what a prompt shows, in bytes.
type Caps struct {
	File     int // one file
	Artifact int // one document of the task
	Total    int // everything, including headers and fences; the list of what is not shown may take 16 KiB beyond it
}

// DefaultCaps returns the caps of docs/reference/formats.md.
func DefaultCaps() Caps { return Caps{File: 32 << 10, Artifact: 64 << 10, Total: 128 << 10} }

// Remaining returns the caps for what follows text in the same prompt.
func (c Caps) Remaining(text string) Caps {
	c.Total -= len(text)
	return c
}

// Source says where the files of rows are read.
type Source struct {
	Main     string                   // main checkout, for everything below .trellis
	Worktree string                   // for everything else; "": Main
	Task     string                   // a task directory as rows spell it: .trellis/tasks/<id>
	Inputs   string                   // frozen copy of the task directory; files that exist in it are read from there
	Name     func(path string) string // returns the name of a file for the agent; nil: its path
	// Shown, if not nil, is called for each file below .trellis of the main checkout that a prompt shows, with its content.
	Shown func(path string, content []byte)
}

// Note is a file that could not be shown in full.
type Note struct {
	Path   string
	Bytes  int // 0 if there is no such file
	Shown  int // number of bytes shown, from the beginning
	Reason string
	Why    string
}

const (
	maxIndex  = 200      // maximum number of listed files that did not fit
	indexRoom = 16 << 10 // size that the list of them may have in any case, in bytes
	maxReason = 400      // maximum length of a reason, in bytes

	maxJudged = 4 << 20 // larger files are not shown if Source.Shown must see all of them
)

// Assemble formats the files that rows name, in their order, for a prompt: each file under a header with its path and reason,
// in a fence longer than any run of backticks in it. A directory becomes its *.md files; a file that is named twice is shown
// once. Of a file above its cap, the beginning is shown up to the end of a line, with its size and where the rest begins. Files
// that can't be shown, or not within caps, are listed at the end with path, size and reason. For both there are notes.
//
// The text depends only on src, rows, caps and the files, so equal rows make equal bytes. Rows need not have been checked: a
// path that leads out of its tree is never opened.
func Assemble(src Source, rows []Row, caps Caps) (text string, notes []Note) {
	a := assembly{src: src, caps: caps, seen: map[string]bool{}}
	main := a.open(src.Main)
	a.main, a.worktree = main, main
	if src.Worktree != "" {
		a.worktree = a.open(src.Worktree)
	}
	if src.Inputs != "" {
		a.inputs = a.open(src.Inputs)
	}
	defer a.close()
	for _, r := range rows {
		a.addRow(r)
	}
	a.addIndex()
	return a.text.String(), a.notes
}

type assembly struct {
	src                    Source
	caps                   Caps
	main, worktree, inputs *tree
	opened                 []*os.Root
	text                   strings.Builder
	seen                   map[string]bool
	notes                  []Note
}

// open returns nil for a folder that does not exist; every file in it is then missing.
func (a *assembly) open(dir string) *tree {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	a.opened = append(a.opened, root)
	return &tree{dir, root}
}

func (a *assembly) close() {
	for _, r := range a.opened {
		r.Close()
	}
}

func (a *assembly) addRow(r Row) {
	// Sanitize the reason, so that it can't be taken for a header, a fence or another entry.
	words := strings.FieldsFunc(r.Reason, func(r rune) bool { return unicode.IsSpace(r) || isUnprintable(r) })
	r.Reason = text.Cut(strings.Join(words, " "), maxReason)
	clean, wrong := cleanPath(r.Path)
	if wrong != "" {
		a.addNote(printablePath(r.Path), 0, r.Reason, wrong)
		return
	}
	clean, files, more, wrong := a.expandPath(clean, r.Type)
	if wrong != "" {
		a.addNote(clean+"/", 0, r.Reason, wrong)
		return
	}
	for _, f := range files {
		a.addFile(f, r)
	}
	if more > 0 {
		a.addNote(clean+"/", 0, r.Reason, fmt.Sprintf("%d more *.md files, only the first %d are shown", more, len(files)))
	}
}

// expandPath returns the files that the path of a row stands for, how many more there are, and the path's current location.
func (a *assembly) expandPath(clean, kind string) (now string, files []string, more int, wrong string) {
	if t, at := a.locate(clean); t != nil && t == a.main && !t.exists(at) {
		clean = t.currentPath(clean)
	}
	if kind != Directory {
		return clean, []string{clean}, 0, ""
	}
	t, at := a.locate(clean)
	if t == nil {
		return clean, nil, 0, isMissing
	}
	files, more, wrong = t.markdownFiles(at)
	for i, f := range files {
		files[i] = path.Join(clean, path.Base(f))
	}
	return clean, files, more, wrong
}

// ProjectFiles returns the files below .trellis of the main checkout at root that a prompt may show for rows.
func ProjectFiles(root string, rows []Row) (files []string) {
	a := assembly{src: Source{Main: root}}
	a.main = a.open(root)
	defer a.close()
	for _, r := range rows {
		clean, wrong := cleanPath(r.Path)
		if wrong != "" || !isTrellisPath(clean) || a.main == nil {
			continue
		}
		_, names, _, _ := a.expandPath(clean, r.Type)
		files = append(files, names...)
	}
	return files
}

// locate returns the tree that has path, and its path there.
func (a *assembly) locate(clean string) (*tree, string) {
	if rest, ok := strings.CutPrefix(clean, a.src.Task+"/"); ok && a.src.Task != "" && a.inputs != nil {
		if _, err := a.inputs.root.Lstat(rest); err == nil {
			return a.inputs, rest
		}
	}
	if isTrellisPath(clean) {
		return a.main, clean
	}
	return a.worktree, clean
}

func (a *assembly) addFile(clean string, r Row) {
	if a.seen[clean] {
		return
	}
	a.seen[clean] = true
	limit := a.caps.File
	if r.Type == Artifact {
		limit = a.caps.Artifact
	}
	t, at := a.locate(clean)
	if t == nil {
		a.addNote(clean, 0, r.Reason, isMissing)
		return
	}
	judged, most := a.src.Shown != nil && t == a.main && isTrellisPath(at), limit
	if judged {
		most = maxJudged // Shown gets all of it
	}
	content, size, wrong := t.read(at, most)
	if wrong != "" {
		a.addNote(clean, size, r.Reason, wrong)
		return
	}
	if judged && len(content) < size {
		a.addNote(clean, size, r.Reason, fmt.Sprintf("more than %d bytes", maxJudged))
		return
	}
	begin := truncateText(content, limit)
	shown := formatFile(a.displayName(clean), r.Reason, begin, size)
	if a.text.Len()+len(shown) > a.caps.Total {
		a.addNote(clean, size, r.Reason, "no room left")
		return
	}
	a.text.WriteString(shown)
	if len(begin) < size {
		a.notes = append(a.notes, Note{clean, size, len(begin), r.Reason, fmt.Sprintf("its first %d of %d bytes are", len(begin), size)})
	}
	if judged {
		a.src.Shown(at, content)
	}
}

func (a *assembly) displayName(clean string) string {
	if a.src.Name != nil {
		return a.src.Name(clean)
	}
	return clean
}

func (a *assembly) addNote(path string, size int, reason, why string) {
	a.notes = append(a.notes, Note{Path: path, Bytes: size, Reason: reason, Why: why})
}

// formatFile formats one file of a prompt, or the beginning of one that has size bytes.
func formatFile(name, reason string, begin []byte, size int) string {
	content := string(begin)
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n", name)
	if reason != "" {
		fmt.Fprintf(&b, "Why: %s\n", reason)
	}
	ticks := fence(content)
	fmt.Fprintf(&b, "\n%s\n%s", ticks, content)
	if content != "" && !strings.HasSuffix(content, "\n") {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s\n\n", ticks)
	if len(begin) < size {
		fmt.Fprintf(&b, "These are the first %d of %d bytes; read the rest in %s, from line %d on.\n\n", len(begin), size, name, 1+strings.Count(content, "\n"))
	}
	return b.String()
}

// fence returns a fence longer than any run of backticks in content, so that nothing in it ends the fence.
func fence(content string) string {
	return strings.Repeat("`", max(text.Backticks(content)+1, 3))
}

// addIndex lists the files that are not shown at all.
func (a *assembly) addIndex() {
	missing := slices.DeleteFunc(slices.Clone(a.notes), func(n Note) bool { return n.Shown > 0 })
	if len(missing) == 0 {
		return
	}
	a.text.WriteString("### Not shown\nThese were named too, but could not be put here. Read what you need of them.\n\n")
	limit := max(a.caps.Total, a.text.Len()+indexRoom)
	for i, n := range missing {
		line := a.indexLine(n)
		if i == maxIndex || a.text.Len()+len(line) > limit {
			fmt.Fprintf(&a.text, "- and %d more\n", len(missing)-i)
			break
		}
		a.text.WriteString(line)
	}
	a.text.WriteByte('\n')
}

func (a *assembly) indexLine(n Note) string {
	line := "- " + a.displayName(n.Path)
	if n.Bytes > 0 {
		line += fmt.Sprintf(", %d bytes", n.Bytes)
	}
	line += " (" + n.Why + ")"
	if n.Reason != "" {
		line += ": " + n.Reason
	}
	return line + "\n"
}
