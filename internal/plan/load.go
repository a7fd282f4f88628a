package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// LoadOptions say which file of steps is loaded, and for what.
type LoadOptions struct {
	File string // as people know it: problems name it so
	// Read reads a file by its path from the folder of File, the main one by its name. The caller keeps it to
	// where it may read.
	Read  func(path string) ([]byte, error)
	Given map[string]string // values for vars of the file (--var)
	// Task says that it is the plan.json of a task: every var has a value, there is a criterion, tascs of tascer
	// are work for agents, and paths of other files are from the top of the repository. Else it is a file for
	// `trellis run`.
	Task  bool
	Facts Facts // of the main file; others are checked against Exists and Missing alone
}

// Load reads a file of steps, in JSON or YAML, of ours, of executant or of tascer, with the files that its
// workflow steps name, checks all of them and puts in what values are known. The bundle is nil when one of the
// problems is an error. Problems stand in the order of the files, the main one first, and of their lines.
func Load(o LoadOptions) (*Bundle, []trellis.Problem) {
	l := &loader{LoadOptions: o, files: map[string]*loaded{}}
	l.b = &Bundle{Main: path.Base(filepath.ToSlash(o.File)), Plans: map[string]*Plan{}, task: o.Task}
	if len(o.Given) > 0 {
		l.b.Given = maps.Clone(o.Given)
	}
	main := l.file(l.b.Main)
	switch {
	case main.err != nil:
		main.problems = append(main.problems, Problem{Message: unread(main.err)})
	case main.plan != nil:
		ok := l.give(main)
		main.problems = append(main.problems, main.plan.check(o.Facts, o.Task, o.Given)...)
		if ok {
			l.follow(main)
		}
		main.plan.fillChecks()
	}
	return l.end()
}

type loader struct {
	LoadOptions
	b      *Bundle
	files  map[string]*loaded
	order  []string // of files
	size   int      // of their texts
	visits int      // of steps, so far
}

type loaded struct {
	key      string // in Bundle.Plans
	name     string // as people know it
	text     string
	plan     *Plan // nil when it can't be read
	err      error // of reading it from the disk
	problems []Problem
}

// maxText is how many bytes all files together may have.
const maxText = 8 << 20

// file reads a file the first time that it is asked for.
func (l *loader) file(key string) *loaded {
	if f := l.files[key]; f != nil {
		return f
	}
	f := &loaded{key: key, name: l.shown(key)}
	l.files[key], l.order = f, append(l.order, key)
	data, err := l.Read(key)
	if l.size += len(data); err == nil && l.size > maxText {
		err = fmt.Errorf("the files are larger than %d MB together", maxText>>20)
	}
	if f.err = err; err != nil {
		return f
	}
	f.text = string(data)
	f.plan, f.problems = Read(key, data, l.Task && key == l.b.Main)
	return f
}

// shown is what people call the file of a key.
func (l *loader) shown(key string) string {
	if path.IsAbs(key) || l.Task && key != l.b.Main {
		return key
	}
	return path.Join(path.Dir(filepath.ToSlash(l.File)), key)
}

// unread says why a file can't be read, without the path that stands before it anyway.
func unread(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Sprintf("reading it: %v", err)
}

// end puts together what was found.
func (l *loader) end() (*Bundle, []trellis.Problem) {
	var problems []trellis.Problem
	ok := true
	for _, key := range l.order {
		f := l.files[key]
		if f.plan != nil {
			l.b.Plans[key] = f.plan
		}
		inOrder(f.problems)
		for i, p := range f.problems {
			if !slices.Contains(f.problems[:i], p) { // a file that is called twice can have the same said of it twice
				problems, ok = append(problems, p.In(f.name)), ok && p.Warning
			}
		}
	}
	if !ok {
		return nil, problems
	}
	texts := map[string]string{}
	for key := range l.b.Plans {
		texts[key] = l.files[key].text
	}
	l.b.seal(texts)
	return l.b, problems
}

// Read is what a file of that name says, in whichever format; task: that it is the plan.json of a task. The plan is nil when one
// of the problems is an error. What must hold beyond that is for [Load].
func Read(name string, data []byte, task bool) (*Plan, []Problem) {
	text, broken := textOf(data)
	if broken != nil {
		return nil, []Problem{*broken}
	}
	d, problems := openAs(name, text)
	if d == nil {
		return nil, problems
	}
	said := slices.Clone(problems)
	if f, _ := d.foreign(); f != nil {
		if len(d.again) > 0 {
			return nil, append(problems, d.again...)
		}
		var more []Problem
		d, more = d.converted(task)
		problems = append(problems, more...)
	}
	p, more := d.plan()
	more = append(more, d.traps(more)...)
	for _, f := range more {
		f.Pointer = own(d.own, f.Pointer)
		if !slices.ContainsFunc(said, func(p Problem) bool { return p.Line == f.Line && !p.Warning }) { // else it follows from that
			problems = append(problems, f)
		}
	}
	if slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning }) {
		return nil, problems
	}
	return p, problems
}

// openAs reads text as what its name says, or else what it looks like.
func openAs(name, text string) (*document, []Problem) {
	ext := strings.ToLower(path.Ext(name))
	isYAML := ext == ".yaml" || ext == ".yml"
	if ext == ".json" || json.Valid([]byte(text)) || !isYAML && strings.HasPrefix(strings.TrimSpace(text), "{") {
		d, broken := openJSON(text)
		if broken != nil {
			return nil, []Problem{*broken}
		}
		return d, nil
	}
	return openYAML(text)
}

// give puts the values that a person gave into the vars of the main file, if it takes all of them and lacks none.
func (l *loader) give(main *loaded) bool {
	vars, before := main.plan.Vars, len(main.problems)
	for _, name := range slices.Sorted(maps.Keys(l.Given)) {
		value := l.Given[name]
		_, declared := vars[name]
		p := main.plan.problem("/vars", "--var %s: the file declares no such var", name)
		switch {
		case !declared:
			p.Hint = meantVar(name, vars)
		case !utf8.ValidString(value):
			p.Message = "--var " + name + ": the value is not UTF-8 text"
		default:
			vars[name] = &value
			continue
		}
		main.problems = append(main.problems, p)
	}
	if len(main.problems) > before {
		return false
	}
	for _, name := range names(vars) {
		if vars[name] == nil && !l.Task {
			p := main.plan.problem("/vars/"+name, "%s has no value", name)
			p.Hint = "give one with --var " + name + "=…"
			main.problems = append(main.problems, p)
		}
	}
	return len(main.problems) == before
}

// meantVar is the var that may have been meant, or what to do where none is near.
func meantVar(name string, vars map[string]*string) string {
	if hint := trellis.Meant(name, names(vars)); hint != "" {
		return hint
	}
	if len(vars) == 0 {
		return "leave out --var " + name + ", or declare it under vars"
	}
	return "name one of its vars: " + strings.Join(names(vars), ", ")
}

// problem is one at a pointer of the plan.
func (p *Plan) problem(at, format string, args ...any) Problem {
	return Problem{Pointer: own(p.own, at), Line: line(p.lines, at), Message: fmt.Sprintf(format, args...)}
}

// own is the pointer in the file of another tool, for one of the plan that was made of it.
func own(pointers map[string]string, at string) string {
	if pointers == nil {
		return at
	}
	rest := ""
	for {
		if o, ok := pointers[at]; ok || at == "" {
			return o + rest
		}
		i := max(0, strings.LastIndexByte(at, '/'))
		at, rest = at[:i], at[i:]+rest
	}
}
