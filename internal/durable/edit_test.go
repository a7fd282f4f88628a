package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// editors holds the ways in which programs save a file.
var editors = map[string]func(path string, data []byte) error{
	"rename-over": func(path string, data []byte) error { return replaceBy(path+"~", path, data) },
	"other-folder": func(path string, data []byte) error {
		return replaceBy(filepath.Join(filepath.Dir(path), "elsewhere", "save"), path, data)
	},
	"in-place": func(path string, data []byte) error {
		return inHalves(path, os.O_WRONLY|os.O_TRUNC, data)
	},
	"in-place-truncated-last": func(path string, data []byte) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.Truncate(int64(len(data)))
	},
	"delete-create": func(path string, data []byte) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return inHalves(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, data)
	},
}

func replaceBy(temp, path string, data []byte) error {
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func inHalves(path string, flags int, data []byte) error {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(data[:len(data)/2]); err != nil {
		return err
	}
	time.Sleep(200 * time.Microsecond) // as long as an editor may take
	if _, err := f.Write(data[len(data)/2:]); err != nil {
		return err
	}
	return f.Close()
}

var (
	byPerson = regexp.MustCompile(`person=(\d+)\n`)
	byUpdate = regexp.MustCompile(`update=(\d+)\n`)
)

const document = "person=0\nupdate=0\n"

func number(re *regexp.Regexp, data []byte) int {
	m := re.FindSubmatch(data)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// whole returns the complete content of the file, as an editor shows it, and reads again while the file is only half written.
func whole(path string) ([]byte, error) {
	for {
		data, err := os.ReadFile(path)
		if err != nil || byPerson.Match(data) && byUpdate.Match(data) {
			return data, err
		}
	}
}

// person saves a file repeatedly in one of the ways of editors, and fails if a save is missing after others have updated the
// file. An update during which the file is saved shows its own file until it has checked the file that it swapped out:
// a save is lost only if it is still missing one update after the update that first shows it missing.
func person(a []string) error {
	style, path := a[0], a[1]
	saves, _ := strconv.Atoi(a[2])
	for i := 1; i <= saves; i++ {
		data, err := whole(path)
		if err != nil {
			return err
		}
		if err := editors[style](path, byPerson.ReplaceAll(data, fmt.Appendf(nil, "person=%d\n", i))); err != nil {
			return err
		}
		data, err = updated(path, number(byUpdate, data)+2)
		if err == nil && number(byPerson, data) != i {
			data, err = updated(path, number(byUpdate, data)+1)
		}
		if err != nil {
			return err
		}
		if got := number(byPerson, data); got != i {
			return fmt.Errorf("save %d is lost, there is %d", i, got)
		}
	}
	return nil
}

// updated waits for update n or a later one in the file, and returns the content.
func updated(path string, n int) ([]byte, error) {
	for {
		data, err := whole(path)
		if err != nil || number(byUpdate, data) >= n {
			return data, err
		}
	}
}

// appender appends lines to a file, each after an update of the line before: of two lines within one swap only the last stays.
// It counts updates from the one in the file after the line was added: on a busy machine an earlier reading can be very old.
func appender(a []string) error {
	lines, _ := strconv.Atoi(a[1])
	for i := range lines {
		if err := appendLine(a[0], i); err != nil {
			return err
		}
		data, err := whole(a[0])
		if err != nil {
			return err
		}
		if _, err := updated(a[0], number(byUpdate, data)+2); err != nil {
			return err
		}
	}
	return nil
}

func appendLine(path string, i int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "line %d\n", i)
	return errors.Join(err, f.Close())
}

// increment returns update n by Trellis, as a function for Edit.
func increment(n int) func([]byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) {
		return byUpdate.ReplaceAll(old, fmt.Appendf(nil, "update=%d\n", n)), nil
	}
}

// Edge F3: no save is lost if a person saves a file, in each of the ways of editors, while Trellis updates it as fast as it can.
func TestEditKeepsWhatPersonsSave(t *testing.T) {
	for style := range editors {
		t.Run(style, func(t *testing.T) {
			path := editedFile(t)
			n := updateWhile(t, path, "person", style, path, "25")
			if got := number(byPerson, []byte(read(t, path))); got != 25 {
				t.Errorf("person=%d at last", got)
			}
			if got := number(byUpdate, []byte(read(t, path))); got != n {
				t.Errorf("update=%d at last, want %d", got, n)
			}
		})
	}
	t.Run("append", func(t *testing.T) {
		path := editedFile(t)
		updateWhile(t, path, "append-lines", path, "200")
		for i := range 200 {
			if !strings.Contains(read(t, path), fmt.Sprintf("line %d\n", i)) {
				t.Errorf("line %d is lost", i)
			}
		}
	})
}

func editedFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "task.json")
	write(t, path, document)
	if err := os.Mkdir(filepath.Join(filepath.Dir(path), "elsewhere"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// updateWhile updates the file until a process in that role has ended, and once after that. It returns the number of updates.
func updateWhile(t *testing.T, path, role string, args ...string) (n int) {
	t.Helper()
	cmd := play(t, role, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		n++
		if err := new(durable.Disk).Edit(path, increment(n)); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			n++
			if err := new(durable.Disk).Edit(path, increment(n)); err != nil {
				t.Fatal(err)
			}
			if got := names(t, filepath.Dir(path)); got != "elsewhere task.json" {
				t.Errorf("left %q", got)
			}
			return n
		default:
		}
	}
}

// Edge F3: a save during any step of an update, in each of the ways of editors, is in the file in the end, and so is the update.
func TestEditMergesASaveWithinEachStep(t *testing.T) {
	for style, save := range editors {
		for n := 1; ; n++ {
			path := editedFile(t)
			step, saved := 0, false
			disk := &durable.Disk{Fault: func(string, string) error {
				if step++; step != n {
					return nil
				}
				saved = true
				return save(path, []byte("person=7\nupdate=0\n"))
			}}
			if err := disk.Edit(path, increment(5)); err != nil {
				t.Fatalf("%s at step %d: %v", style, n, err)
			}
			if !saved {
				break
			}
			got := []byte(read(t, path))
			if number(byPerson, got) != 7 {
				t.Errorf("%s at step %d: got %q", style, n, got)
			}
			// A save after the swap replaces the updated file; the next update then changes that one.
			if err := disk.Edit(path, increment(5)); err != nil || read(t, path) != "person=7\nupdate=5\n" {
				t.Errorf("%s at step %d: then %q, %v", style, n, read(t, path), err)
			}
			if got := names(t, filepath.Dir(path)); got != "elsewhere task.json" {
				t.Errorf("%s at step %d: left %q", style, n, got)
			}
		}
	}
}

// Edge F3: a program that opened the file before the swap and writes to it afterwards writes into the file that has the name.
func TestEditWaitsForWhoHasTheFileOpen(t *testing.T) {
	for _, at := range []string{"create", "sync", "rename"} {
		path := editedFile(t)
		var written chan error
		disk := &durable.Disk{Fault: func(step, _ string) error {
			if step == at && written == nil {
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return err
				}
				written = make(chan error)
				go func() {
					time.Sleep(20 * time.Millisecond) // meanwhile the swap finds the file open
					_, err := f.WriteString("appended\n")
					f.Close()
					written <- err
				}()
			}
			return nil
		}}
		if err := disk.Edit(path, increment(5)); err != nil {
			t.Fatal(err)
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		if got, want := read(t, path), "person=0\nupdate=5\nappended\n"; got != want {
			t.Errorf("open since %s: got %q, want %q", at, got, want)
		}
	}
}

func TestReplaceFailsAtEveryStep(t *testing.T) {
	for n := 1; ; n++ {
		path := editedFile(t)
		disk, steps := breakingDisk(n)
		err := disk.Replace(path, []byte(document), []byte(after))
		got, last := read(t, path), (*steps)[len(*steps)-1]
		if want := map[bool]string{true: after, false: document}[err == nil || last == "syncdir"]; got != want {
			t.Errorf("step %d (%v): got %q, error %v", n, *steps, got, err)
		}
		if got := names(t, filepath.Dir(path)); got != "elsewhere task.json" {
			t.Errorf("step %d (%v): left %q", n, *steps, got)
		}
		if err == nil {
			if got, want := strings.Join(*steps, " "), "create write write sync rename look syncdir"; got != want {
				t.Errorf("got steps %q, want %q", got, want)
			}
			return
		}
	}
}

// Remove removes a file only if its content is still the expected one: a save in between, in each of the ways of editors, stays.
func TestRemoveKeepsASaveWithinEachStep(t *testing.T) {
	for style, save := range editors {
		path := editedFile(t)
		disk := &durable.Disk{Fault: func(step, _ string) error {
			if step != "remove" {
				return nil
			}
			return save(path, []byte(after))
		}}
		if err := disk.Remove(path, []byte(document)); !errors.Is(err, durable.ErrChanged) || read(t, path) != after {
			t.Errorf("%s: got %q, error %v", style, read(t, path), err)
		}
		if got := names(t, filepath.Dir(path)); got != "elsewhere task.json" {
			t.Errorf("%s: left %q", style, got)
		}
		err := new(durable.Disk).Edit(path, func(old []byte) ([]byte, error) { return old, new(durable.Disk).Remove(path, old) })
		if got := names(t, filepath.Dir(path)); err != nil || got != "elsewhere" {
			t.Errorf("%s: then left %q, error %v", style, got, err)
		}
	}
	if err := new(durable.Disk).Remove(editedFile(t)+"-not", nil); !errors.Is(err, durable.ErrChanged) {
		t.Errorf("got %v of a file that is not there", err)
	}
}

// Edit creates a missing file only if it is still missing; otherwise it changes the file that somebody has created.
func TestEditOfAMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "implement.jsonl")
	disk := &durable.Disk{Fault: func(step, _ string) error {
		if _, err := os.Lstat(path); step == "rename" && errors.Is(err, fs.ErrNotExist) {
			write(t, path, "by hand\n")
		}
		return nil
	}}
	err := disk.Edit(path, func(old []byte) ([]byte, error) { return append(bytes.Clone(old), "added\n"...), nil })
	if got, want := read(t, path), "by hand\nadded\n"; err != nil || got != want {
		t.Errorf("got %q, want %q, error %v", got, want, err)
	}
}

func TestEditRefusesWhatIsNoFile(t *testing.T) {
	path := editedFile(t)
	link := filepath.Join(filepath.Dir(path), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{link, filepath.Dir(path)} {
		if err := new(durable.Disk).Edit(p, increment(1)); err == nil || read(t, path) != document {
			t.Errorf("edited %s: %q", p, read(t, path))
		}
	}
}
