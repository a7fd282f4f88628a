package structure

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// wordings are phrases of string literals that people did not understand, and what they are told now.
var wordings = []struct{ not, but string }{
	{"waits for room", "queued ("},
	{"waits for watcher", "not started: run `trellis watch`"},
	{"wait · ", "waiting for "},
	{"next next", "next: trellis start "},
	{"excluded everything else", "out of scope:"},
	{"waits for no approval", "; nothing needs approval"},
	{"is to go on in", ", keeping the work done so far"},
	{"is to begin anew", "restart from "},
	{"stays until it is merged", "kept (not merged)"},
	{"removes it all the same", "removes it anyway"},
	{"nobody said who works here", "no user is set"},
	{"wrong number of arguments", "unexpected argument %q"},
	{"parse error", "%s needs a unit, e.g. 5s"},
	{"looking for commit", "branch %q not found"},
	{"not so: ", "mentions "},
	{"a second handle is kept out", "file locking works"},
	{"things to mend", "problem"},
	{"call a task off", "cancel a task"},
	{"goes on with: ", "next: trellis start "},
	{"ended with %d", "exited with %d"},
	{"ended with exit", "exited with %d"},
	{"was told to end", "stopped by Ctrl-C"},
	{"are not to be had", "file events are unavailable"},
	{"more happened at once", "event queue overflowed: rescanning"},
}

// commandsSaid finds a command after a colon, and the word before the colon; hintsSaid are the words that may stand there, for the
// next step, for the way to continue, or for what brings something back.
var (
	commandsSaid = regexp.MustCompile(`([A-Za-z]*)(?: %s)?: (?:trellis|gh|git (?:add|branch|checkout|config|diff|merge|push|restore|worktree)) [a-z-]`)
	hintsSaid    = map[string]bool{"next": true, "with": true, "argument": true, "Undo": true, "default": true}
)

// denials finds "X is no Y", which should be "X is not a Y", with the words before and after it; denied are those that may stand
// there: "there is no" before, "no longer" after.
var (
	denials = regexp.MustCompile(`([A-Za-z]*) ?\b(?:is|are) no ([A-Za-z]+)`)
	denied  = map[string]bool{"there": true, "There": true, "longer": true, "more": true, "less": true, "other": true, "larger": true, "one": true}
)

// germanism returns the first "X is no Y" of a text and its offset, or "" if there is none.
func germanism(text string) (said string, at int) {
	for _, m := range denials.FindAllStringSubmatchIndex(text, -1) {
		if !denied[text[m[2]:m[3]]] && !denied[text[m[4]:m[5]]] {
			return text[m[0]:m[1]], m[0]
		}
	}
	return "", 0
}

// foreign are words of messages and prompts that are not what developers say: fix, again, continue, is, ignored, reported.
var foreign = regexp.MustCompile(`\b(?i:mend(?:s|ed|ing)?|anew|go on|goes on|went on|stands? (?:there|here|in|on|twice|behind)|begins? alike|passed over|told here|nobody is here)\b`)

// Texts for people are plain English, with the same words for the same thing, and the next command to type follows "next:".
func TestWordsPeopleRead(t *testing.T) {
	said := map[string]token.Position{}
	for _, p := range sourcesOf(t, "internal/...", "taskdir", "contextfiles", "specs", "agents") {
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						said[text] = p.Fset.Position(lit.Pos())
					}
				}
				return true
			})
		}
	}
	if len(said) < 5000 {
		t.Fatalf("only %d texts were read", len(said))
	}
	for _, w := range wordings {
		found := false
		for text, at := range said {
			if strings.Contains(text, w.not) {
				t.Errorf("%s:%d says %q: say %q", filepath.Base(at.Filename), at.Line, text, w.but)
			}
			found = found || strings.Contains(text, w.but)
		}
		if !found {
			t.Errorf("nothing says %q, in the place of %q", w.but, w.not)
		}
	}
	prompts, err := filepath.Glob("../../templates/*.tmpl")
	parts, _ := filepath.Glob("../../templates/parts/*.tmpl")
	if err != nil || len(prompts) < 10 || len(parts) < 5 {
		t.Fatalf("got %d prompts and %d parts, %v", len(prompts), len(parts), err)
	}
	for _, prompt := range append(prompts, parts...) {
		data, err := os.ReadFile(prompt)
		if err != nil {
			t.Fatal(err)
		}
		said[string(data)] = token.Position{Filename: prompt, Line: 1}
	}
	for text, at := range said {
		if found := foreign.FindString(text); found != "" && strings.Contains(text, " ") {
			t.Errorf("%s:%d says %q: say it in plain English", filepath.Base(at.Filename), at.Line, found)
		}
		if no, _ := germanism(text); no != "" {
			t.Errorf("%s:%d says %q: say is not a", filepath.Base(at.Filename), at.Line, no)
		}
		for _, m := range commandsSaid.FindAllStringSubmatch(text, -1) {
			if !hintsSaid[m[1]] {
				t.Errorf("%s:%d names a command as %q: say next: before it", filepath.Base(at.Filename), at.Line, m[0])
			}
		}
	}
}

// The pages use the words of the program.
func TestWordsOfDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("got %d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "../../README.md", "../../docs/README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if no, n := germanism(string(data)); no != "" {
			t.Errorf("%s:%d says %q: say is not a", page, 1+strings.Count(string(data[:n]), "\n"), no)
		}
		for _, w := range wordings {
			if n := strings.Index(string(data), w.not); n >= 0 {
				t.Errorf("%s:%d says %q: say %q", page, 1+strings.Count(string(data[:n]), "\n"), w.not, w.but)
			}
		}
	}
}

// idioms are phrases of comments at which readers stopped: the technical word for each is shorter ("except", "finally", "again", "reads").
var idioms = regexp.MustCompile(`\b(?:but for|at last|anew|once more|looks? at|the like|so too|of none)\b`)

// Comments use the field's words, in plain English.
func TestWordsOfComments(t *testing.T) {
	lines := 0
	for _, p := range sourcesOf(t, "internal/...", "taskdir", "contextfiles", "specs", "agents", "templates") {
		for _, f := range p.Syntax {
			for _, group := range f.Comments {
				for _, comment := range group.List {
					lines++
					at := p.Fset.Position(comment.Pos())
					if no, _ := germanism(comment.Text); no != "" {
						t.Errorf("%s:%d says %q: say is not a", filepath.Base(at.Filename), at.Line, no)
					}
					if found := idioms.FindString(comment.Text); found != "" {
						t.Errorf("%s:%d says %q: say it in the field's words", filepath.Base(at.Filename), at.Line, found)
					}
				}
			}
		}
	}
	if lines < 10000 {
		t.Fatalf("only %d lines were read", lines)
	}
}

var errorNamed = regexp.MustCompile(`\*(?:[a-z]+\.)?([A-Z]\w+Error)\b`)

// Errors that comments promise exist under that name.
func TestErrorsOfComments(t *testing.T) {
	types := map[string]bool{"PathError": true} // of io/fs
	named := map[string]token.Position{}
	for _, p := range sourcesOf(t, "internal/...", "taskdir", "contextfiles", "specs", "agents", "templates") {
		for _, name := range p.Types.Scope().Names() {
			types[name] = true
		}
		for _, f := range p.Syntax {
			for _, group := range f.Comments {
				for _, m := range errorNamed.FindAllStringSubmatch(group.Text(), -1) {
					named[m[1]] = p.Fset.Position(group.Pos())
				}
			}
		}
	}
	for name, at := range named {
		if !types[name] {
			t.Errorf("%s:%d promises a *%s, which does not exist", filepath.Base(at.Filename), at.Line, name)
		}
	}
	if len(named) < 30 {
		t.Errorf("only %d errors are named", len(named))
	}
}
