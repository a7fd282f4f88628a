package taskdir_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/taskdir"
)

// generator writes random JSON that nobody would write by hand.
type generator struct{ *rand.Rand }

func (g generator) space() string {
	return []string{"", "", " ", "\n", "\r\n\t", "  \n    "}[g.IntN(6)]
}

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) key() string {
	return g.pick(`""`, `"."`, `"a.b"`, `"*"`, `"#"`, `"@reverse"`, `"0"`, `"-1"`, `":1"`, `"a|b"`, `"\\"`, `"\""`, `"!"`, `"{x}"`, `"\u0061"`,
		`"é"`, `"pipeline.phase"`, `"Status"`, `"title "`, `"x"`, `"x"`, `"pipeline\\.phase"`)
}

func (g generator) value(depth int) string {
	if depth > 3 || g.IntN(3) > 0 {
		return g.pick(`null`, `true`, `false`, `0`, `-0.0`, `1e3`, `1.50`, `12345678901234567890`, `""`, `"x"`, `"}"`, `"\"]"`, `"\\"`, `"\u00e9\n"`, `"日本"`, `[]`, `{}`)
	}
	if g.IntN(2) == 0 {
		items := make([]string, g.IntN(4))
		for i := range items {
			items[i] = g.space() + g.value(depth+1) + g.space()
		}
		return "[" + strings.Join(items, ",") + g.space() + "]"
	}
	return g.object(depth+1, nil)
}

// object returns an object with random members and, anywhere between them, the given fields.
func (g generator) object(depth int, fields map[string]string) string {
	var members []string
	for range g.IntN(5) {
		members = append(members, g.key()+g.space()+":"+g.space()+g.value(depth))
	}
	for key, value := range fields {
		members = append(members, fmt.Sprintf("%q%s:%s%s", key, g.space(), g.space(), value))
	}
	slices.Sort(members) // the order of a map is random; from here on only the seed decides
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	var b strings.Builder
	for i, m := range members {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(g.space() + m + g.space())
	}
	return "{" + b.String() + g.space() + "}"
}

// document returns a random task.json.
func (g generator) document() string {
	fields := map[string]string{}
	for _, key := range []string{"title", "name", "branch", "notes", "verify"} {
		if g.IntN(2) == 0 {
			fields[key] = g.pick(`"x"`, `null`, `"\u00e9\\\""`)
		}
	}
	switch g.IntN(4) {
	case 0:
		fields["pipeline"] = g.pick(`null`, `{}`, `{ }`)
	case 1:
		inner := map[string]string{"phase": `"x"`, "revision": g.pick("1", "7")}
		if g.IntN(2) == 0 {
			inner["failure"] = g.object(1, map[string]string{"code": `"x"`})
		}
		fields["pipeline"] = g.object(1, inner)
	}
	return g.space() + g.object(0, fields) + g.space()
}

func TestSetInAnyObject(t *testing.T) {
	for seed := range uint64(800 / soak.Every(4)) {
		g := generator{rand.New(rand.NewPCG(seed, 0))}
		doc := []byte(g.document())
		if _, err := taskdir.Parse("task.json", doc); err != nil {
			t.Fatalf("seed %d: %v in\n%s", seed, err, doc)
		}
		for _, field := range []string{"title", "branch", "children", "pipeline.phase", "pipeline.revision", "pipeline.failure.code", "pipeline.judge", "pipeline.usage.cost_usd"} {
			setOne(t, doc, field, newValues[field])
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, doc)
		}
	}
}
