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

// LoadOptions specifies the file of steps to load, and its purpose.
type LoadOptions struct {
	File string // path for people, used in problems
	// Read reads a file by its path relative to the folder of File, the main one by its name. It is up to the caller to
	// restrict which files it reads.
	Read  func(path string) ([]byte, error)
	Given map[string]string // values for vars of the file (--var)
	// Task means that it is the plan.json of a task: every var has a value, there is a criterion, tascs of tascer are work for
	// agents, and paths of other files are relative to the top of the repository. Otherwise it is a file for `trellis run`.
	Task  bool
	Facts Facts // for the main file; others are checked against Exists and Missing only
}

// Load reads a file of steps, in JSON or YAML, in the format of Trellis, executant or tascer, with the files that its workflow
// steps name, checks all of them and fills in the known values. The bundle is nil if one of the problems is an error. Problems
// are ordered by file, the main one first, and line.
func Load(o LoadOptions) (*Bundle, []trellis.Problem) {
	l := &loader{LoadOptions: o, files: map[string]*loadedFile{}}
	l.bundle = &Bundle{Main: path.Base(filepath.ToSlash(o.File)), Plans: map[string]*Plan{}, task: o.Task}
	if len(o.Given) > 0 {
		l.bundle.Given = maps.Clone(o.Given)
	}
	main := l.readFile(l.bundle.Main)
	switch {
	case main.err != nil:
		main.problems = append(main.problems, Problem{Message: readFailure(main.err)})
	case main.plan != nil:
		ok := l.setVars(main)
		main.problems = append(main.problems, main.plan.check(o.Facts, o.Task, o.Given)...)
		if ok {
			l.followCalls(main)
		}
		main.plan.fillChecks()
	}
	return l.result()
}

type loader struct {
	LoadOptions
	bundle *Bundle
	files  map[string]*loadedFile
	order  []string // keys in the order of reading
	size   int      // total size of the texts, in bytes
	visits int      // steps visited so far
}

type loadedFile struct {
	key      string // key in Bundle.Plans
	name     string // path for people
	text     string
	plan     *Plan // nil if it can't be read
	err      error // the error of reading it from disk
	problems []Problem
}

// maxText is the maximum total size of all files, in bytes.
const maxText = 8 << 20

// readFile returns a file, reading it on the first call.
func (l *loader) readFile(key string) *loadedFile {
	if f := l.files[key]; f != nil {
		return f
	}
	f := &loadedFile{key: key, name: l.displayPath(key)}
	l.files[key], l.order = f, append(l.order, key)
	data, err := l.Read(key)
	if l.size += len(data); err == nil && l.size > maxText {
		err = fmt.Errorf("the files are larger than %d MB together", maxText>>20)
	}
	if f.err = err; err != nil {
		return f
	}
	f.text = string(data)
	f.plan, f.problems = Read(key, data, l.Task && key == l.bundle.Main)
	return f
}

// displayPath returns the path for people of the file with that key.
func (l *loader) displayPath(key string) string {
	if path.IsAbs(key) || l.Task && key != l.bundle.Main {
		return key
	}
	return path.Join(path.Dir(filepath.ToSlash(l.File)), key)
}

// readFailure describes why a file can't be read, without its path, which the message has already.
func readFailure(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Sprintf("reading it: %v", err)
}

// result returns the bundle and all problems.
func (l *loader) result() (*Bundle, []trellis.Problem) {
	var problems []trellis.Problem
	ok := true
	for _, key := range l.order {
		f := l.files[key]
		if f.plan != nil {
			l.bundle.Plans[key] = f.plan
		}
		sortByLine(f.problems)
		for i, p := range f.problems {
			if !slices.Contains(f.problems[:i], p) { // a file called twice may have the same problem twice
				problems, ok = append(problems, p.ForFile(f.name)), ok && p.Warning
			}
		}
	}
	if !ok {
		return nil, problems
	}
	texts := map[string]string{}
	for key := range l.bundle.Plans {
		texts[key] = l.files[key].text
	}
	l.bundle.seal(texts)
	return l.bundle, problems
}

// Read parses a file of that name, in any of the formats; task means that it is the plan.json of a task. The plan is nil if one
// of the problems is an error. Checks beyond the schema are left to [Load].
func Read(name string, data []byte, task bool) (*Plan, []Problem) {
	text, broken := textOf(data)
	if broken != nil {
		return nil, []Problem{*broken}
	}
	d, problems := parseAs(name, text)
	if d == nil {
		return nil, problems
	}
	earlier := slices.Clone(problems)
	if f, _ := d.foreignKey(); f != nil {
		if len(d.duplicates) > 0 {
			return nil, append(problems, d.duplicates...)
		}
		var more []Problem
		d, more = d.convert(task)
		problems = append(problems, more...)
	}
	p, more := d.plan()
	more = append(more, d.ambiguousWords(more)...)
	for _, f := range more {
		f.Pointer = originalPointer(d.originals, f.Pointer)
		if !slices.ContainsFunc(earlier, func(p Problem) bool { return p.Line == f.Line && !p.Warning }) { // else it follows from that problem
			problems = append(problems, f)
		}
	}
	if slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning }) {
		return nil, problems
	}
	return p, problems
}

// parseAs reads text in the format of its extension, or else the one it looks like.
func parseAs(name, text string) (*document, []Problem) {
	ext := strings.ToLower(path.Ext(name))
	isYAML := ext == ".yaml" || ext == ".yml"
	if ext == ".json" || json.Valid([]byte(text)) || !isYAML && strings.HasPrefix(strings.TrimSpace(text), "{") {
		d, broken := parseJSON(text)
		if broken != nil {
			return nil, []Problem{*broken}
		}
		return d, nil
	}
	return parseYAML(text)
}

// setVars sets vars of the main file to the given values. It returns false if one is not declared or a value is missing.
func (l *loader) setVars(main *loadedFile) bool {
	vars, before := main.plan.Vars, len(main.problems)
	for _, name := range slices.Sorted(maps.Keys(l.Given)) {
		value := l.Given[name]
		_, declared := vars[name]
		p := main.plan.problem("/vars", "--var %s: the file declares no such var", name)
		switch {
		case !declared:
			p.Hint = varHint(name, vars)
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

// varHint returns a hint about the var that may have been meant, or about what to do if no name is close.
func varHint(name string, vars map[string]*string) string {
	if hint := trellis.NearestHint(name, names(vars)); hint != "" {
		return hint
	}
	if len(vars) == 0 {
		return "leave out --var " + name + ", or declare it under vars"
	}
	return "name one of its vars: " + strings.Join(names(vars), ", ")
}

// problem returns a problem at a pointer of the plan.
func (p *Plan) problem(at, format string, args ...any) Problem {
	return Problem{Pointer: originalPointer(p.originals, at), Line: line(p.lines, at), Message: fmt.Sprintf(format, args...)}
}

// originalPointer maps a pointer of a converted plan to the pointer in the file of the other tool.
func originalPointer(pointers map[string]string, at string) string {
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
