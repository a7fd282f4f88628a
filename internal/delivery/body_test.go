package delivery_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/pipeline"
)

// Text of people and models is shown literally: it is not markup, mentions nobody, and closes no issue.
func TestBodyIsData(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const z = "\u200b"
	b.Work.Summary = "# T\n\nAsk @bob, close #12 and GH-7, GL-8, https://github.com/a/b/issues/9.\n<!-- trellis:end --><script>\n\n## More\n\nnot this\n"
	b.Work.Report.Criteria = []pipeline.CriterionResult{{Criterion: pipeline.Criterion{ID: "A1", Text: "a | b\n| c"}, Verdict: "met", Evidence: "![x](http://t.example/p.png) `@ann` **fixes #3** _x_\n<!-- trellis:end -->"}}
	b.Work.Report.Checks.Results = []pipeline.CommandResult{{Command: "a | b `c`", Code: 1, Forgiven: true}, {Command: "echo @ann\necho #1"}, {Command: "echo '<!-- trellis:end -->'"}}
	got := b.deliver().Body
	for _, want := range []string{
		"Ask @" + z + "bob, close #" + z + "12 and GH-" + z + "7, GL-" + z + "8, https://github.com/a/b/issues/" + z + "9.\n&lt;!-- trellis:end --&gt;&lt;script&gt;\n\n",
		`| A1 | a \| b \| c | must | met | !\[x\](http://t.example/p.png) \` + "`@" + z + `ann\` + "`" + ` \*\*fixes #` + z + `3\*\* \_x\_ &lt;!-- trellis:end --&gt; |` + "\n",
		"| `` a \\| b `c` `` | 1, as at base | 0.0 |\n| `echo @ann echo #1` | 0 | 0.0 |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "not this") || strings.Count(got, "<!--") != 2 {
		t.Errorf("got\n%s", got)
	}
}

// However long its parts are, the body is no longer than a forge accepts, and keeps what matters most.
func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 500 {
		b.Work.Report.Criteria = append(b.Work.Report.Criteria, pipeline.CriterionResult{Criterion: pipeline.Criterion{ID: fmt.Sprint("A", i), Text: strings.Repeat("ä", 400)}, Verdict: "met", Evidence: strings.Repeat("*", 1000)})
	}
	b.Work.Summary = strings.Repeat("so much to say\n", 5000)
	b.write("docs/pull_request_template.md", strings.Repeat("- [ ] box\n", 5000))
	got := b.deliver().Body
	if len(got) > 65_536 || len(got) < 60_000 || !strings.Contains(got, "- Commit: "+b.Work.Report.Commit) || !strings.Contains(got, "report.md of the task") || !strings.Contains(got, "- [ ] box") {
		t.Errorf("got %d bytes: %.200s … %s", len(got), got, got[len(got)-200:])
	}
}

// A template that is a symbolic link is not read.
func TestTemplateIsNoLink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("../secret", "hunter2")
	b.Work.Job.Delivery.PR = true
	if err := os.Symlink("../secret", b.Dir+"/pull_request_template.md"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.D.Preview(context.Background(), b.Work); err != nil || strings.Contains(got.Body, "hunter2") {
		t.Errorf("got %+v, %v", got, err)
	}
	b.D.Redact = func(s string) string { return strings.ReplaceAll(s, "greet.sh", "[redacted]") }
	if got := b.deliver().Body; strings.Contains(got, "greet.sh") {
		t.Errorf("got\n%s", got)
	}
}
