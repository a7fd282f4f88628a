package diffview_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/diffview"
)

func read(t testing.TB, text string) (list []*diffview.File) {
	t.Helper()
	if err := diffview.Read(strings.NewReader(text), func(f *diffview.File) error {
		list = append(list, f)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// gitDiff returns the diff that git prints for files, given with their content before and after; "-" is no file.
func gitDiff(t *testing.T, files map[string][2]string, more func(dir string), flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	lay := func(at int) {
		for name, texts := range files {
			path := filepath.Join(dir, name)
			if texts[at] == "-" {
				os.Remove(path)
			} else if err := os.WriteFile(path, []byte(texts[at]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		git("add", "-A")
	}
	git("init", "-q")
	lay(0)
	git("commit", "-q", "--allow-empty", "-m", "one")
	lay(1)
	if more != nil {
		more(dir)
		git("add", "-A")
	}
	return git(append([]string{"diff-index", "--cached", "--patch"}, append(flags, "HEAD")...)...)
}

func TestFilesOfGit(t *testing.T) {
	text := gitDiff(t, map[string][2]string{
		"new.go": {"-", "package a\n"}, "gone.txt": {"a\nb\n", "-"}, "bin": {"\x00a", "\x00b"}, "mode.sh": {"x\n", "x\n"}, "no end": {"a", "b"},
		"ümlaut \"q\".txt": {"a\n", "b\n"}, "tab\tname": {"a\n", "b\n"}, "old.c": {strings.Repeat("line\n", 20), "-"}, "moved.c": {"-", strings.Repeat("line\n", 20) + "more\n"}, "empty": {"-", ""},
	}, func(dir string) { _ = os.Chmod(filepath.Join(dir, "mode.sh"), 0o755) }, "-M")
	got := map[string]string{}
	for _, f := range read(t, text) {
		got[f.Name()] = fmt.Sprintf("%s %q→%q %s→%s bin=%v +%d -%d", f.Kind, f.Old, f.New, f.OldMode, f.NewMode, f.Binary, f.Added, f.Deleted)
	}
	want := map[string]string{
		"new.go": `added ""→"new.go" →100644 bin=false +1 -0`, "gone.txt": `deleted "gone.txt"→"" 100644→ bin=false +0 -2`, "bin": `modified "bin"→"bin" → bin=true +0 -0`,
		"mode.sh": `modified "mode.sh"→"mode.sh" 100644→100755 bin=false +0 -0`, "no end": `modified "no end"→"no end" → bin=false +1 -1`,
		"ümlaut \"q\".txt": `modified "ümlaut \"q\".txt"→"ümlaut \"q\".txt" → bin=false +1 -1`, "tab\tname": `modified "tab\tname"→"tab\tname" → bin=false +1 -1`,
		"moved.c": `renamed "old.c"→"moved.c" → bin=false +1 -0`, "empty": `added ""→"empty" →100644 bin=false +0 -0`,
	}
	for name := range got {
		if got[name] != want[name] {
			t.Errorf("%q: got %s, want %s", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d files, want %d: %q", len(got), len(want), got)
	}
}

const sample = `diff --git a/a.go b/a.go
index 1..2 100644
--- a/a.go
+++ b/a.go
@@ -1,4 +1,5 @@ func main() {
 /* a comment
-of some lines */ return "old" // 1
+of some lines */ return "new" // 1
+	x := 42
 func y() {}
-}
\ No newline at end of file
+}
@@ -20 +21,0 @@
--- no header
`

func rows(list []diffview.Row) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%c%d,%d|", max(r.Mark, ' '), r.Old, r.New)
		for _, p := range r.Parts {
			text := p.Text
			if p.Class != "" {
				text = string(p.Class) + ":" + text
			}
			if p.Changed {
				text = "*" + text + "*"
			}
			b.WriteString("[" + text + "]")
		}
		if r.NoEnd {
			b.WriteString("¬")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestUnified(t *testing.T) {
	f := read(t, sample)[0]
	got, more := f.Unified(0, 100)
	const want = `@0,0|[@@ -1 +1 @@ func main() {]
 1,1|[comment:/* a comment]
-2,0|[comment:of some lines */][ ][keyword:return][ ][string:"][*string:old*][string:"][ ][comment:// 1]
+0,2|[comment:of some lines */][ ][keyword:return][ ][string:"][*string:new*][string:"][ ][comment:// 1]
+0,3|[	x := ][number:42]
 3,4|[keyword:func][ y() {}]
-4,0|[}]¬
+0,5|[}]
@0,0|[@@ -20 +21 @@]
-20,0|[-- no header]
`
	if rows(got) != want || more != 0 {
		t.Errorf("%d more, got\n%s\nwant\n%s", more, rows(got), want)
	}
}

// Side by side, a line is beside the line that replaced it.
func TestSplit(t *testing.T) {
	f := read(t, sample)[0]
	got, more := f.Split(0, 100)
	var sides []string
	for _, p := range got {
		sides = append(sides, fmt.Sprintf("%d|%d", p.Left.Old, p.Right.New))
	}
	if want := "0|0 1|1 2|2 0|3 3|4 4|5 0|0 20|0"; strings.Join(sides, " ") != want || more != 0 {
		t.Errorf("%d more, got %s, want %s", more, sides, want)
	}
	if got[3].Left.Mark != 0 || got[3].Left.Parts != nil || !got[0].Left.Head() {
		t.Errorf("got %+v", got[3].Left)
	}
}

// A page of rows equals that part of all rows, in whatever hunks it begins and ends.
func TestPages(t *testing.T) {
	f := read(t, sample)[0]
	all, _ := f.Unified(0, 100)
	pairs, _ := f.Split(0, 100)
	for from := range len(all) + 2 {
		for most := range len(all) + 2 {
			begin, end := min(from, len(all)), min(from+most, len(all))
			if got, more := f.Unified(from, most); rows(got) != rows(all[begin:end]) || more != len(all)-end {
				t.Errorf("from %d at most %d: %d more, got\n%s\nwant %d more,\n%s", from, most, more, rows(got), len(all)-end, rows(all[begin:end]))
			}
			begin, end = min(from, len(pairs)), min(from+most, len(pairs))
			if got, more := f.Split(from, most); len(got) != end-begin || more != len(pairs)-end {
				t.Errorf("from %d at most %d: got %d pairs and %d more, want %d and %d", from, most, len(got), more, end-begin, len(pairs)-end)
			}
		}
	}
}

// Characters that a terminal would obey or hide are shown as visible ones, and lines that are too long are cut.
func TestHostile(t *testing.T) {
	long := strings.Repeat("é", 3000)
	f := read(t, "diff --git a/x.js b/x.js\n--- a/x.js\n+++ b/x.js\n@@ -0,0 +1,3 @@ \x1b[2J\n+\u202e\x1b[2J<script>\xff\n+"+long+"\n+after\n")[0]
	got, _ := f.Unified(0, 10)
	if text := got[1].Text(); strings.ContainsAny(text, "\x1b\u202e") || !utf8.ValidString(text) || !strings.Contains(text, "<script>") {
		t.Errorf("got %q", text)
	}
	if text := got[2].Text(); !strings.HasSuffix(text, "…") || len(text) > 5000 || f.Hunks[0].Lines[1].Cut != 6000-4095 {
		t.Errorf("got %d bytes, and %d cut", len(text), f.Hunks[0].Lines[1].Cut)
	}
	if text := got[3].Text(); text != "after" {
		t.Errorf("got %q", text)
	}
	if strings.Contains(got[0].Text(), "\x1b") {
		t.Errorf("got %q", got[0].Text())
	}
}

func TestLanguages(t *testing.T) {
	for name, lines := range map[string][2]string{
		"a.py":       {`x = """doc # no`, `[x = ][string:"""doc # no]`},
		"b.py":       {`def f(): # why`, `[keyword:def][ f(): ][comment:# why]`},
		"c.yaml":     {`it: don't # x`, `[it: don't ][comment:# x]`},
		"d.sql":      {`SELECT 1 -- one`, `[keyword:SELECT][ ][number:1][ ][comment:-- one]`},
		"e.sh":       {`if [ $# = 1 ]; then`, `[keyword:if][ [ $# = 1 ]; ][keyword:then]`},
		"f.rs":       {`fn f<'a>(x: &'a str) {}`, `[keyword:fn][ f<][string:'a>(x: &'][a ][keyword:str][) {}]`},
		"g.txt":      {`if "x"`, `[if "x"]`},
		"h.js":       {"`a${1}", "[string:`a${1}]"},
		"i.json":     {`{"a": 1.5e3}`, `[{][string:"a"][: ][number:1.5e3][}]`},
		"Dockerfile": {`# x`, `[comment:# x]`},
		"k.go":       {`s := "a\"b" + 'c'`, `[s := ][string:"a\"b"][ + ][string:'c']`},
	} {
		f := read(t, "diff --git a/"+name+" b/"+name+"\n@@ -0,0 +1 @@\n+"+lines[0]+"\n")[0]
		got, _ := f.Unified(1, 1)
		if want := "+0,1|" + lines[1] + "\n"; rows(got) != want {
			t.Errorf("%s: got %s, want %s", name, rows(got), want)
		}
	}
}

func TestBroken(t *testing.T) {
	for _, text := range []string{"diff --git a/a b/a\n@@ -x +1 @@\n", "diff --git a/a b/a\n@@ -1 +1 @@\n*\n", "diff --git a/a b/a\n@@ -1\n", "diff --git a/a b/a\n@@ -0,2 +1 @@\n"} {
		if err := diffview.Read(strings.NewReader(text), func(*diffview.File) error { return nil }); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
	if got := read(t, "nothing\n"); got != nil {
		t.Errorf("got %v", got)
	}
}

// For any input, Read ends, and the rows of a file have each of its lines once.
func FuzzRead(f *testing.F) {
	f.Add([]byte(sample), 1, 3)
	f.Add([]byte("diff --git \"a/\\303\\274\" b/x\nrename from a\nrename to b\n@@ -1,2 +3 @@\n a\n\n+"), 0, 9)
	f.Fuzz(func(t *testing.T, data []byte, from, most int) {
		most = min(most, 1000)
		_ = diffview.Read(bytes.NewReader(data), func(f *diffview.File) error {
			lines := len(f.Hunks)
			for _, h := range f.Hunks {
				lines += len(h.Lines)
			}
			got, more := f.Unified(0, 1<<20)
			if len(got) != lines || more != 0 {
				t.Fatalf("got %d rows and %d more of %d", len(got), more, lines)
			}
			f.Unified(from, most)
			f.Split(from, most)
			return nil
		})
	})
}

// large returns a diff of the given number of lines, divided among files.
func large(lines, files int) string {
	var b strings.Builder
	for f := range files {
		n := lines / files
		fmt.Fprintf(&b, "diff --git a/f%d.go b/f%d.go\n--- a/f%d.go\n+++ b/f%d.go\n@@ -1,%d +1,%d @@\n", f, f, f, f, n/2, n/2)
		for i := range n / 2 {
			fmt.Fprintf(&b, "-	value%d := compute(\"old\", %d) // a line of the usual length, as code has\n", i, i)
		}
		for i := range n / 2 {
			fmt.Fprintf(&b, "+	value%d := compute(\"new\", %d) // a line of the usual length, as code has\n", i, i)
		}
	}
	return b.String()
}

func BenchmarkRead(b *testing.B) {
	text := large(50_000, 100)
	b.ReportAllocs()
	for b.Loop() {
		read(b, text)
	}
}

func BenchmarkLastPage(b *testing.B) {
	f := read(b, large(50_000, 1))[0]
	b.ReportAllocs()
	for b.Loop() {
		if got, _ := f.Split(24_500, 500); len(got) != 500 {
			b.Fatal(len(got))
		}
	}
}

// A diff of 50,000 lines is read one file at a time: no more than one file is kept in memory.
func TestMemory(t *testing.T) {
	text := large(50_000, 100)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	most := uint64(0)
	n := 0
	if err := diffview.Read(strings.NewReader(text), func(f *diffview.File) error {
		if n++; n%10 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc-min(after.HeapAlloc, before.HeapAlloc))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if most > 2<<20 || n != 100 {
		t.Errorf("%d bytes were kept while %d files were read, want at most 2 MB", most, n)
	}
}
