package taskref

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
)

// Places are values in a task's records that are specific to a machine. For other machines marks replace them.
type Places struct {
	Main      string // root of the main checkout
	Worktrees string // folder of the worktrees
	Clone     string // id of the clone, see git.Repo.CloneID
}

// Marks begin and end with a character that no path contains by itself. If the beginning of a mark occurs in the text to seal,
// it is replaced by a mark too, so that nothing else is taken for a mark.
const (
	markBegin     = "%trellis:"
	markMain      = markBegin + "main%"
	markWorktrees = markBegin + "worktrees%"
	markClone     = markBegin + "clone%"
	markBeginning = markBegin + "mark%" // stands for markBegin itself
)

// Seal replaces the values of this machine by marks. Open restores sealed text exactly.
func (p Places) Seal(text []byte) []byte { return p.seal(text, inText) }

// Open replaces marks by the values of this machine.
func (p Places) Open(text []byte) []byte { return p.open(text, inText) }

// spelling returns the forms of a path in a text. All of them are found; the first is used for writing.
type spelling func(path string) []string

func inText(path string) []string { return []string{path} }

// inJSON returns a path as text.JSON writes it, and as json.Marshal does.
func inJSON(path string) []string {
	a, errA := text.JSON(path)
	b, errB := json.Marshal(path)
	if errA != nil || errB != nil {
		return inText(path)
	}
	return []string{string(a[1 : len(a)-1]), string(b[1 : len(b)-1])}
}

// inJournal returns a path as the engine writes it.
func inJournal(path string) []string {
	list := inJSON(path)
	slices.Reverse(list)
	return list
}

// replacement is a mark and the value that it stands for.
type replacement struct {
	mark, value string
	folder      bool
}

// replacements returns the replacements for all known values, longer ones first.
func (p Places) replacements(spell spelling) (list []replacement) {
	for _, s := range []replacement{{markMain, p.Main, true}, {markWorktrees, p.Worktrees, true}, {markClone, p.Clone, false}} {
		if s.folder && s.value != "" {
			s.value = filepath.Clean(s.value)
		}
		if s.value == "" || s.value == "/" {
			continue
		}
		for _, value := range spell(s.value) {
			if !slices.Contains(list, replacement{s.mark, value, s.folder}) {
				list = append(list, replacement{s.mark, value, s.folder})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b replacement) int { return len(b.value) - len(a.value) })
	return list
}

func (p Places) seal(text []byte, spell spelling) []byte {
	signs := append([]replacement{{markBeginning, markBegin, false}}, p.replacements(spell)...)
	var first [256]bool
	for _, s := range signs {
		first[s.value[0]] = true
	}
	var out []byte
	done := 0
	for i := 0; i < len(text); i++ {
		if !first[text[i]] {
			continue
		}
		for n, s := range signs {
			if bytes.HasPrefix(text[i:], []byte(s.value)) && (n == 0 || s.isWhole(text, i)) {
				out = append(append(out, text[done:i]...), s.mark...)
				done = i + len(s.value)
				i = done - 1
				break
			}
		}
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

func (p Places) open(text []byte, spell spelling) []byte {
	if !bytes.Contains(text, []byte(markBegin)) {
		return text
	}
	var pairs []string
	for _, s := range append([]replacement{{markBeginning, markBegin, false}}, p.replacements(func(path string) []string { return spell(path)[:1] })...) {
		pairs = append(pairs, s.mark, s.value)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(text)))
}

// isWhole reports whether the value at i of a text is complete, and not part of another path or word.
func (s replacement) isWhole(text []byte, i int) bool {
	before, after := text[:i], text[i+len(s.value):]
	if !s.folder {
		return (len(before) == 0 || !wordByte(before[len(before)-1])) && (len(after) == 0 || !wordByte(after[0]))
	}
	return pathCanBegin(before) && pathCanEnd(after)
}

// pathCanBegin reports whether an absolute path can begin after that text.
func pathCanBegin(before []byte) bool {
	if len(before) == 0 || endsInEscape(before) || bytes.HasSuffix(before, []byte("file://")) {
		return true
	}
	c := before[len(before)-1]
	return c != '/' && !nameByte(c) && !strings.ContainsRune("})*", rune(c)) // ${HOME}/app, $(pwd)/app, */app
}

// endsInEscape reports whether a text ends with a JSON escape of a character that can't be in a name: \n, \u003c.
func endsInEscape(text []byte) bool {
	const unicode = 6
	at := len(text) - 2
	if len(text) >= unicode && text[len(text)-unicode+1] == 'u' && len(bytes.Trim(text[len(text)-unicode+2:], "0123456789abcdefABCDEF")) == 0 {
		at = len(text) - unicode
	} else if at < 0 || !strings.ContainsRune("nrtbf", rune(text[at+1])) {
		return false
	}
	slashes := 0
	for ; at >= 0 && text[at] == '\\'; at-- {
		slashes++
	}
	return slashes%2 == 1
}

// pathCanEnd reports whether a path can end before that text, or continues with a subpath. A dot may be the end of a sentence.
func pathCanEnd(after []byte) bool {
	rest := bytes.TrimLeft(after, ".")
	if len(rest) == 0 {
		return true
	}
	return !nameByte(rest[0]) && (rest[0] != '/' || len(rest) == len(after))
}

// nameByte reports whether a byte most likely continues a file name.
func nameByte(c byte) bool {
	return wordByte(c) || c >= 0x80 || strings.IndexByte(".-~+@%", c) >= 0
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
