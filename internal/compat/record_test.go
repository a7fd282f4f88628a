package compat

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// recording reports whether cases are played and recorded, instead of being resumed.
func recording() bool { return os.Getenv("TRELLIS_RECORD") != "" }

// recorder records the world of a case while it is played.
type recorder struct {
	*world
	archive archive
	journal string // the longest that was seen
	log     string // its path
	wanted  []string
}

// tape records the world whenever the journal ends with the start of a wanted activity whose work is done, but whose
// end is not written: what a crash leaves there.
func tape(w *world, s *runner.Site, wanted []string) *recorder {
	r := &recorder{world: w, wanted: slices.Clone(wanted), archive: archive{want: map[string]string{}, texts: map[string]string{}}}
	s.Now = clock()
	s.Store.Now = s.Now
	s.Disk = &durable.Disk{Fault: func(step, path string) error {
		if step == "write" && filepath.Base(path) == "journal.jsonl" {
			r.look(path)
		}
		return nil
	}}
	return r
}

var startOf = regexp.MustCompile(`"k":"start","id":"([^"]+)"`)

// look records the world if the journal ends with the start of a wanted activity.
func (r *recorder) look(path string) {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 || data[len(data)-1] != '\n' {
		return // only half of a line is written
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	found := startOf.FindStringSubmatch(lines[len(lines)-1])
	if found == nil {
		return
	}
	if i := slices.Index(r.wanted, found[1]); i >= 0 {
		r.wanted = slices.Delete(r.wanted, i, i+1)
		r.take(found[1])
	}
}

// take records the world under a name.
func (r *recorder) take(name string) {
	c := cut{name: strings.ReplaceAll(name, "/", ":")}
	err := filepath.WalkDir(r.Root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // another branch of the run has just removed it
			return nil
		}
		if err != nil || !e.Type().IsRegular() || passing(path) {
			return err
		}
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(r.Root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		f := file{path: rel, mode: st.Mode().Perm()}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch text := string(data); {
		case isObject(rel):
			f.key = r.archive.put(unpackObject(r.T, data))
		case filepath.Base(rel) == "journal.jsonl":
			text = unchained(text)
			f.key, f.lines = r.name(rel, text), strings.Count(text, "\n")
		case isJournal(rel):
			f.key = r.archive.put(unchained(text))
		default:
			f.key = r.archive.put(text)
		}
		c.files = append(c.files, f)
		return nil
	})
	if err != nil {
		r.Error(err)
	}
	r.archive.cuts = append(r.archive.cuts, c)
}

// name stores a journal, which is longer each time, under one key.
func (r *recorder) name(path, text string) string {
	const key = "journal"
	if r.log != "" && !strings.HasPrefix(text, r.journal) {
		r.Errorf("%s does not go on with %s", path, r.log)
	}
	r.log, r.journal = path, text
	r.archive.texts[key] = text
	return key
}

// passing reports whether a file is left by a lock, an index or git's own habits, so that no run needs it to continue.
func passing(path string) bool {
	base := filepath.Base(path)
	return base == "index" || base == "lock" || strings.HasSuffix(base, ".lock") || strings.HasSuffix(base, ".sample") ||
		slices.Contains([]string{"description", "COMMIT_EDITMSG", "ORIG_HEAD", "steps.log"}, base)
}

// end writes the case to its archive, without what differs between machines or moments.
func (r *recorder) end(name string) {
	r.Helper()
	if len(r.wanted) > 0 {
		r.Errorf("%s never began", strings.Join(r.wanted, ", "))
	}
	replace := [][2]string{{r.Root, rootMark}}
	for _, c := range []struct{ pattern, to string }{
		{`"nonce":"([0-9a-f]{16})"`, "0123456789abcdef"},
		{`"clone":"([0-9a-f]{32})"`, "0123456789abcdef0123456789abcdef"},
		{`"mark":"([0-9a-f]{16})"`, "fedcba9876543210"},
	} {
		for _, text := range r.all() {
			for _, m := range regexp.MustCompile(c.pattern).FindAllStringSubmatch(text, -1) {
				replace = append(replace, [2]string{m[1], c.to})
			}
		}
	}
	var list []string
	for _, p := range replace {
		list = append(list, p[0], p[1])
	}
	same := strings.NewReplacer(list...)
	keys := map[string]string{}
	texts := r.archive.texts
	r.archive.texts = map[string]string{}
	for key, text := range texts {
		text = inode.ReplaceAllString(same.Replace(text), `"device":1,"inode":1`)
		if key == "journal" {
			r.archive.texts[key] = text
			keys[key] = key
			continue
		}
		keys[key] = r.archive.put(text)
	}
	for i, c := range r.archive.cuts {
		for j, f := range c.files {
			r.archive.cuts[i].files[j].key, r.archive.cuts[i].files[j].path = keys[f.key], same.Replace(f.path)
		}
	}
	r.archive.save(r.T, name)
}

var inode = regexp.MustCompile(`"device":\d+,"inode":\d+`)

// all returns the texts, and the paths of the files.
func (r *recorder) all() (list []string) {
	for _, text := range r.archive.texts {
		list = append(list, text)
	}
	for _, c := range r.archive.cuts {
		for _, f := range c.files {
			list = append(list, f.path)
		}
	}
	return list
}
