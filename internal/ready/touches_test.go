package ready_test

import (
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/trellis-tasks/trellis/internal/ready"
)

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"api/**", "api/v1/user.go", true},
		{"api/**", "api", true},
		{"api/**", "apis/user.go", false},
		{"api/*.go", "api/v1/*.go", false},
		{"**/*.go", "api/v1/*", true},
		{"**/*.go", "docs/*.md", false},
		{"a*c", "*b*", true},
		{"a*c", "b*", false},
		{"src/?.c", "src/ab.c", false},
		{"{api,web}/**", "{docs,web}/index.html", true},
		{"{api,web}/**", "{docs,test}/**", false},
		{"a{b,{c,d}e}f", "adef", true},
		{"a{b,{c,d}e}f", "aef", false},
		{"internal/api", "internal/api/server.go", true}, // a folder
		{"internal/api/", "internal/api/server.go", true},
		{"./README.md", "README.md", true},
		{"README.md", "readme.txt", false},
		{"**", "x", true},
		{"", "x", true},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "zx", true}, // classes are not compared
		{"[a-c]x", "by", false},
		{`a\*`, "b", true}, // escapes are not read
		{"a{b", "c", true}, // not a valid glob
		{"ä?ö", "äüö", true},
		{strings.Repeat("{a,b}", 30), "c", true}, // too many alternatives
	} {
		if _, got := ready.Overlap([]string{c.a}, []string{c.b}); got != c.want {
			t.Errorf("%q and %q: got %v, want %v", c.a, c.b, got, c.want)
		}
		if _, got := ready.Overlap([]string{c.b}, []string{c.a}); got != c.want {
			t.Errorf("%q and %q: got %v, want %v", c.b, c.a, got, c.want)
		}
	}
	if got, _ := ready.Overlap([]string{"docs/**", "api/**"}, []string{"web/**", "api/x"}); got != "api/**" {
		t.Errorf("got %q, want the glob of the first", got)
	}
	if got, found := ready.Overlap(nil, []string{"**"}); found {
		t.Errorf("no globs overlap with %q", got)
	}
}

// FuzzOverlap searches for a path that two globs match although Overlap finds no overlap in one of the two orders.
func FuzzOverlap(f *testing.F) {
	for _, s := range [][3]string{{"a/**", "**/b", "a/b"}, {"{a,b}*", "?c", "bc"}, {"a**b", "ab", "ab"}, {"**/x/**", "x", "x"}, {"[!a]b", "cb", "cb"}, {"a/{b,c/**}/d", "a/*/*/d", "a/c/e/d"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(check)
}

func check(t *testing.T, a, b, path string) {
	one, err := doublestar.Match(a, path)
	two, also := doublestar.Match(b, path)
	if err != nil || also != nil || !one || !two {
		return
	}
	_, forth := ready.Overlap([]string{a}, []string{b})
	if _, back := ready.Overlap([]string{b}, []string{a}); !forth || !back {
		t.Errorf("%q matches %q and %q, which don't overlap", path, a, b)
	}
}

// For all pairs of short globs over a small alphabet: if both match one of the short paths, Overlap finds an overlap, and it does not do so
// for every pair.
func TestOverlapOfShortGlobs(t *testing.T) {
	globs := words([]string{"a", "b", "/", "*", "**", "?", "{a,b/}", "[ab]"}, 3)
	paths := words([]string{"a", "b", "/"}, 5)
	matches := map[string][]bool{}
	for _, g := range globs {
		if !doublestar.ValidatePattern(g) {
			continue
		}
		for _, p := range paths {
			ok, err := doublestar.Match(g, p)
			matches[g] = append(matches[g], ok && err == nil && !strings.HasPrefix(p, "/") && !strings.HasSuffix(p, "/") && !strings.Contains(p, "//"))
		}
	}
	shared, seen, over := 0, 0, 0
	for a, left := range matches {
		for b, right := range matches {
			both := false
			for i := range paths {
				both = both || left[i] && right[i]
			}
			_, got := ready.Overlap([]string{a}, []string{b})
			if both && !got {
				t.Fatalf("%q and %q match a path in common, and don't overlap", a, b)
			}
			if both {
				shared++
			}
			if got {
				seen++
			}
			if got && !both {
				over++
			}
		}
	}
	t.Logf("%d pairs share a path, %d are taken for it, %d of them without one of these paths", shared, seen, over)
	if shared == 0 || seen == len(matches)*len(matches) {
		t.Error("nothing was tried")
	}
}

func words(letters []string, most int) []string {
	all, last := []string{}, []string{""}
	for range most {
		var next []string
		for _, w := range last {
			for _, l := range letters {
				next = append(next, w+l)
			}
		}
		all, last = append(all, next...), next
	}
	return all
}
