package roadmap_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

var seeds = []string{
	whole, issue, head, head + "| 1 | a | | |", head + "| **1** | `a\\|b` | blocked | <!-- a | b -->\n| 2 | x", "Step|PR\n-|-\n1|#1\n2\n---\n",
	"---\nauto_advance: true\n---\n\ufeff" + head, "\ufeff---\n---\n" + head + "|1|\\|||\\\n", "- x\n\n\t| Step | PR |\n\t|-|-|\n\t| 1 | |\n",
	"```yaml\nschema_version: '4'\nnodes: [{id: '1', pr: null}, {id: a}]\n```\n", "> " + head + "> | 1 | a | | |\n", "# A\n## Phase 1 #\n" + head + "|1|||#1|#2|\n",
}

// Whatever a file contains, it is read or refused, and an edit changes one cell of one row.
func FuzzSet(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), uint8(0), true, "plan 02-03-x")
		f.Add([]byte(s), uint8(1), false, "done")
		f.Add([]byte(strings.ReplaceAll(s, "\n", "\r\n")), uint8(1), true, "[#1](a|b\\|c)\\")
	}
	f.Fuzz(func(t *testing.T, src []byte, n uint8, pr bool, value string) {
		kept := bytes.Clone(src)
		c := roadmap.Status
		if pr {
			c = roadmap.PR
		}
		r, err := roadmap.Parse("x", src)
		lines := bytes.Count(src, []byte("\n")) + 1
		for _, s := range r.Steps {
			if s.ID == "" || s.Line < 1 || s.Line > lines {
				t.Fatalf("step %+v of %d lines", s, lines)
			}
		}
		for _, p := range r.Check() {
			if p.Message == "" || p.Line < 1 || p.Line > lines {
				t.Fatalf("problem %+v of %d lines", p, lines)
			}
		}
		if err == nil {
			r.Next(nil)
			r.Ready(nil)
			if spelled := bytes.Contains(src, []byte("schema_version")) && !pr; utf8.ValidString(value) && len(r.Steps) > 0 && !spelled {
				checkSet(t, "fuzz", src, int(n)%len(r.Steps), c, value)
			}
		}
		if !bytes.Equal(src, kept) {
			t.Fatal("the text itself was changed")
		}
	})
}

// Rows and cells are read by GitHub's rules, before an edit and after it.
func TestAsGitHub(t *testing.T) {
	texts := []string{"", "a", "`x`", "**b**", "a\\|b", "`a\\|b`", "[l](u)", "你好", "<!-- c -->", "\\", "x\\", "``a`b``"}
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		src := random(rnd, func() string { return texts[rnd.IntN(len(texts))] })
		r, err := roadmap.Parse("x", src)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		compare(t, src, r)
		out, err := roadmap.Set(src, fmt.Sprintf("s%d", rnd.IntN(4)), roadmap.PR, "[#1](a|b)")
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		if r, err = roadmap.Parse("x", out); err != nil {
			t.Fatal(err)
		}
		compare(t, out, r)
	}
}

func compare(t *testing.T, src []byte, r *roadmap.Roadmap) {
	t.Helper()
	var got, want []string
	for _, s := range r.Steps {
		got = append(got, s.ID, s.Description, s.Text(roadmap.PR), s.Text(roadmap.Status))
	}
	doc := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(src))
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if row, ok := n.(*extast.TableRow); ok && entering {
			for c := row.FirstChild(); c != nil; c = c.NextSibling() {
				cell := strings.ReplaceAll(string(c.Lines().Value(src)), `\|`, "|")
				want = append(want, strings.ReplaceAll(cell, "<!-- c -->", ""))
			}
		}
		return ast.WalkContinue, nil
	})
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%q, want\n%q in\n%q", got, want, src)
	}
}
