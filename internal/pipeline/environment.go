package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/taskdir"
)

// What a verdict depends on besides the worktree: the first word of each name in a fingerprint.
const (
	kindGit     = "git"     // settings that git uses
	kindProgram = "program" // programs of the deciding commands
	kindFile    = "file"    // what people wrote in the main checkout
	kindNetwork = "network" // whether each kind of command has network access
)

// fingerprinter takes the fingerprint of a run's environment.
type fingerprinter struct {
	place
	environ []string
	box     *sandbox.Box

	refitted map[string]string // fingerprint of a worktree that was transferred to this machine, nil for others
}

// fingerprint returns a hash of each thing outside of the worktree that a verdict depends on. An agent with the rights of its user
// can change these things.
func (fp *fingerprinter) fingerprint(ctx context.Context, j Job) (map[string]string, error) {
	set, err := fp.repo.Hooks().Settings(j.Worktree)
	if err != nil {
		return nil, err
	}
	f := map[string]string{}
	for name, hash := range set {
		f[kindGit+" "+name] = hash
	}
	for _, word := range strings.Fields(strings.Join(j.Verify, " ")) {
		if path, sum := fp.program(word); path != "" {
			f[kindProgram+" "+word] = sum
		}
	}
	none := fp.box.OfflineKinds(ctx)
	for _, kind := range sandbox.CommandKinds() {
		f[kindNetwork+" "+kind] = map[bool]string{true: "none", false: "yes"}[slices.Contains(none, kind)]
	}
	rel := fp.store.Rel(fp.task.dir) + "/"
	for _, name := range append(slices.Clone(frozenFiles), "implement.jsonl", "check.jsonl", "debug.jsonl", proof.ApprovalsFile) {
		err = errors.Join(err, fp.hashFile(f, rel+name))
	}
	for _, name := range []string{".trellis/config.yaml", ".trellis/worktree.yaml", ".trellis/workflow.md"} {
		err = errors.Join(err, fp.hashFile(f, name))
	}
	if t, lerr := fp.store.Load(fp.task.dir); lerr == nil { // a task that can't be read stops the run elsewhere
		encoded, merr := json.Marshal([]any{t.Pipeline.Verify, t.Pipeline.Protected, t.Pipeline.Approval})
		f[kindFile+" "+rel+taskdir.TaskJSON], err = shortHash(encoded), errors.Join(err, merr)
	}
	return f, err
}

// program returns the path of a command's program and a hash of its path, size and time, "" if word names no program.
func (fp *fingerprinter) program(word string) (path, sum string) {
	if strings.ContainsAny(word, "/=$`'\"") {
		return "", ""
	}
	for _, e := range slices.Backward(fp.environ) {
		dirs, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(dirs) {
			file := filepath.Join(dir, word)
			if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return file, shortHash(fmt.Appendf(nil, "%s %d %d", file, st.Size(), st.ModTime().UnixNano()))
			}
		}
		break
	}
	return "", ""
}

// hashFile adds the hash of a file of the main checkout, if the file exists.
func (fp *fingerprinter) hashFile(f map[string]string, name string) error {
	data, err := durable.ReadBelow(fp.store.Root, name, durable.MaxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if why, ok := errors.AsType[*durable.FileError](err); ok {
		data, err = []byte(why.Error()), nil // the hash is that of the error
	}
	f[kindFile+" "+name] = shortHash(data)
	return err
}

// original returns the fingerprint from when the worktree was ready: on this machine, if it was transferred to it.
func (fp *fingerprinter) original(prepared map[string]string) map[string]string {
	if fp.refitted != nil {
		return fp.refitted
	}
	return prepared
}

// checkDrift compares the fingerprint with the one from when the worktree was ready, and returns a hash of the current one.
// Settings with which git would not commit the files as they are come back as bent; the rest are notes for people.
func (fp *fingerprinter) checkDrift(ctx context.Context, in checksIn) (now string, bent, notes []string, err error) {
	if len(in.Fingerprint) == 0 {
		return "", nil, nil, nil
	}
	f, err := fp.fingerprint(ctx, in.Job)
	if err != nil {
		return "", nil, nil, err
	}
	encoded, err := json.Marshal(f)
	bent, notes = drift(fp.original(in.Fingerprint), f)
	return shortHash(encoded), bent, notes, err
}

func shortHash(data []byte) string { return agentcall.SHA256Hex(data)[:16] }

// drift returns the differences between two fingerprints.
func drift(then, now map[string]string) (bent, notes []string) {
	moved := map[string][]string{}
	all := maps.Clone(now)
	maps.Copy(all, then)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if now[name] == then[name] {
			continue
		}
		kind, what, _ := strings.Cut(name, " ")
		if _, known := then[name]; kind == kindNetwork && !known {
			continue // the run was begun by an older version of Trellis, which did not record it
		}
		if kind == kindGit && git.ChangesContent(what) {
			bent = append(bent, what)
			continue
		}
		moved[kind] = append(moved[kind], what)
	}
	for _, n := range [][2]string{
		{kindFile, "changed by somebody during the run: "},
		{kindProgram, "these programs, which decide, are not those of the beginning of the run: "},
		{kindNetwork, "these commands had the network when the run began and have none now, or the other way round: "},
		{kindGit, "settings of git were changed during the run: "},
	} {
		if list := moved[n[0]]; len(list) > 0 {
			notes = append(notes, n[1]+strings.Join(shortList(list), ", "))
		}
	}
	return shortList(bent), notes
}
