package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// What is going to run is shown beforehand: with values inserted, and with loops and other files expanded.
func TestResolved(t *testing.T) {
	b := loads(t, "resolved", plan.LoadOptions{Given: map[string]string{"dir": "$& api"}}, "", "m.yaml", `schema_version: 1
title: T
vars: {dir: , kind: fast}
steps:
- id: find
  title: Find in {{dir}}
  command: "\nls {{dir}}\nwc -l"
- id: each
  for_each: ["{{dir}}", b]
  as: x
  concurrency: 2
  verify: test -d {{x}}
  steps:
  - {id: say, message: "{{x}} of {{dir}}"}
  - {id: ask, type: approval, title: "Go on?"}
- id: more
  depends_on: [find]
  repeat: 2
  workflow: sub/{{kind}}{{item}}.yaml
  vars: {where: "{{dir}}", n: "{{item}}"}
- id: lines
  depends_on: []
  for_each: cat {{kind}}
  prompt: Do {{item}}.
  risk: high
  proof: {type: file, path: a}
`, "sub/fast1.yaml", "schema_version: 1\ntitle: T\nvars: {where: , n: }\nsteps: [{id: a, command: 'ls {{where}} {{n}}'}]\n", "sub/fast2.yaml", "goal: G\nvars: {where: x, n: }\nsteps: [{name: a, command: 'cat {{where}} {{n}}'}]\n")
	var got []string
	for _, l := range b.ResolvedSteps() {
		got = append(got, fmt.Sprintf("%s%s|%s|%s|%s|%s|%s|%s|%v|%s", strings.Repeat(" ", l.Depth), l.Path, l.Kind, l.Title, l.Does, l.Loop, l.Verify, l.Proof, l.Asks, strings.Join(l.After, ",")))
	}
	want := []string{
		"find|script|Find in $& api|ls $& api …||||false|",
		"each|group|||{{x}}: $& api, b, up to 2 at a time|test -d {{x}}||false|find",
		" each.say|log||{{x}} of $& api||||false|",
		" each.ask|approval|Go on?|||||true|each.say",
		"more|workflow||sub/fast1.yaml, sub/fast2.yaml|{{item}}: 1 to 2|||false|find",
		" more.a|script||ls $& api {{n}}||||false|",
		" more.a|script|a|cat $& api {{n}}||||false|",
		"lines|prompt||Do {{item}}.|{{item}}: each line of `cat fast`||the file a is there|true|",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
