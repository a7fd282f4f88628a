package roadmap

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/yuin/goldmark/ast"
	"go.yaml.in/yaml/v3"
)

// yamlBlock is a roadmap written as YAML in a fenced code block, as in GitHub issues.
type yamlBlock struct {
	line  int // line number of its first line
	lines []codeLine
	items []*yaml.Node
}

// codeLine is the position of a line of a fenced block. pad is the number of spaces before it that stand for part of a tab.
type codeLine struct{ from, to, pad int }

var schemaLine = trellis.Pattern(`(?m)^["']?schema_version["']?\s*:`)

// findYAML finds the YAML block that is the roadmap. Tables then contain no steps.
func (rd *reader) findYAML(doc ast.Node) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // never fails
		fence, ok := n.(*ast.FencedCodeBlock)
		if !ok || !entering {
			if _, quoted := n.(*ast.Blockquote); quoted || n.Type() == ast.TypeInline {
				return ast.WalkSkipChildren, nil
			}
			return ast.WalkContinue, nil
		}
		if language := string(fence.Language(rd.src)); language == "" || language == "yaml" || language == "yml" {
			rd.readFence(fence)
		}
		return ast.WalkSkipChildren, nil
	})
}

func (rd *reader) readFence(n *ast.FencedCodeBlock) {
	content := n.Lines().Value(rd.src)
	if !schemaLine().Match(content) {
		return
	}
	b := &yamlBlock{}
	for i := range n.Lines().Len() {
		s := n.Lines().At(i)
		b.lines = append(b.lines, codeLine{rd.base + s.Start, rd.base + s.Stop, s.Padding})
	}
	b.line = rd.line(b.lines[0].from)
	var root yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(content)).Decode(&root); err != nil {
		line, message := text.YAMLError(err)
		rd.errorf(b.line+min(line, len(b.lines))-1, "", "the YAML of the roadmap: %s", message)
		rd.yaml = b
		return
	}
	if len(root.Content) == 1 {
		rd.takeSteps(b, root.Content[0])
	}
}

// takeSteps takes the steps of a block if it is a roadmap.
func (rd *reader) takeSteps(b *yamlBlock, root *yaml.Node) {
	_, list := field(root, "nodes")
	if list == nil {
		_, list = field(root, "steps")
	}
	_, version := field(root, "schema_version")
	if list == nil || version == nil {
		return
	}
	switch {
	case rd.yaml != nil:
		rd.errorf(b.line, "keep one of them", "this is a second roadmap; the first one is in line %d", rd.yaml.line)
		return
	case !slices.Contains([]string{"2", "3", "4"}, version.Value):
		rd.errorf(b.fileLine(version), "", "schema_version %s is unknown (known: 2, 3, 4)", version.Value)
	case list.Kind == yaml.SequenceNode:
		b.items = list.Content
	default:
		rd.errorf(b.fileLine(list), "", "the steps are not a list")
	}
	rd.yaml = b
}

// fileLine returns the line of a node in the file.
func (b *yamlBlock) fileLine(n *yaml.Node) int { return b.line + n.Line - 1 }

// field returns a key of a mapping and its value, or nil.
func field(m *yaml.Node, name string) (key, value *yaml.Node) {
	if m.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i], m.Content[i+1]
		}
	}
	return nil, nil
}

// scalar returns the text of a value, "" for null and for values that are not text.
func scalar(n *yaml.Node) string {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(n.Value)
}

// yamlSteps reads the steps of the block. A step's phase is its id up to the first dot, as in "Phase 1A: …" above.
func (rd *reader) yamlSteps() {
	if rd.yaml == nil {
		return
	}
	phases := map[string]int{}
	rd.Steps = slices.Grow(rd.Steps, len(rd.yaml.items))
	for _, item := range rd.yaml.items {
		s, ok := rd.yamlStep(item)
		if !ok {
			continue
		}
		id, _, dotted := strings.Cut(s.ID, ".")
		if !dotted {
			id = ""
		}
		n, known := phases[id]
		if !known {
			n = len(rd.Phases)
			phases[id] = n
			rd.Phases = append(rd.Phases, rd.titledPhase(id))
		}
		rd.addStep(s, n)
	}
}

func (rd *reader) titledPhase(id string) Phase {
	if h, ok := rd.phases[id]; ok && id != "" {
		return Phase{ID: id, Title: h.text, Line: h.line}
	}
	if id == "" {
		return Phase{}
	}
	return Phase{ID: id, Title: "Phase " + id}
}

func (rd *reader) yamlStep(n *yaml.Node) (Step, bool) {
	line := rd.yaml.fileLine(n)
	if n.Kind != yaml.MappingNode {
		rd.errorf(line, "- id: '1.1'", "this is not a step")
		return Step{}, false
	}
	value := func(name string) string { _, v := field(n, name); return scalar(v) }
	rd.warnOfMisspelledKeys(n)
	s := Step{ID: value("id"), Description: value("description"), Line: line, source: &yamlItem{rd.yaml, n}}
	if s.ID == "" {
		rd.errorf(line, "- id: '1.1'", "this step has no id")
		return Step{}, false
	}
	s.status, s.pr = value("status"), value("pr")
	if _, deps := field(n, "depends_on"); deps != nil && deps.Kind == yaml.SequenceNode {
		s.Stated = true
		for _, d := range deps.Content {
			s.DependsOn = append(s.DependsOn, scalar(d))
		}
	} else {
		s.DependsOn, s.Stated = dependencies(scalar(deps))
	}
	rd.setYAMLState(&s, value("plan"))
	return s, true
}

// setYAMLState sets the state of a step in a YAML block. There the status decides: a pull request may still be open.
func (rd *reader) setYAMLState(s *Step, plan string) {
	pr := s.Text(PR)
	if strings.Trim(pr, "0123456789") == "" && pr != "" {
		pr = "#" + pr
	}
	ref := readReference(pr)
	if s.PRs, s.Plan = ref.prs, ref.plan; s.Plan == "" && !isEmptyCell(plan) {
		s.Plan = withoutPrefix(plan, "plan ")
	}
	status, known := readStatus(s.Text(Status))
	if s.Text(Status) == "-" {
		status = Skipped
	}
	empty := len(s.PRs) == 0 && s.Plan == ""
	switch {
	case !known:
		rd.errorf(s.Line, "one of: pending, in_progress, done, blocked, skipped", "the status %q of step %s is unknown", s.Text(Status), s.ID)
	case ref.invalid:
		s.Plan = ""
		rd.reportBadPRCell(s, status)
	}
	switch s.State = status; {
	case (status == "" || status == Pending) && !empty:
		s.State = InProgress
	case status == "":
		s.State = Pending
	case status == Done && empty && !ref.invalid:
		rd.warnf(s.Line, "", "step %s is done, and no pull request says how", s.ID)
	}
	if status == Pending && len(s.PRs) > 0 {
		rd.warnf(s.Line, "status: in_progress, or done", "step %s is pending, and has pull request %s", s.ID, s.PRs[0])
	}
}

// yamlItem is a step of a YAML block.
type yamlItem struct {
	block *yamlBlock
	node  *yaml.Node
}

func (it *yamlItem) format(c Cell, value string) string {
	if c != Status {
		return value
	}
	if _, now := field(it.node, "status"); isEmptyCell(value) && scalar(now) == "" {
		return ""
	} else if isEmptyCell(value) {
		return string(Pending)
	}
	if state, ok := readStatus(value); ok {
		return string(state)
	}
	return value
}

var errLayout = errors.New("the YAML is laid out in a way that is not written to; put the value on one line")

func (it *yamlItem) set(src []byte, c Cell, value string) (change, error) {
	if c == Plan {
		return change{}, ErrNoCell
	}
	name := strings.ToLower(string(c))
	key, old := field(it.node, name)
	if key == nil {
		return it.insert(src, name, value)
	}
	if old.Kind == yaml.ScalarNode && old.Value == "" && old.Tag == "!!null" { // a key without a value
		_, to, ok := it.block.token(src, key)
		if !ok || to >= len(src) || src[to] != ':' {
			return change{}, errLayout
		}
		return change{to + 1, to + 1, " " + quoteYAML(value, 0)}, nil
	}
	from, to, ok := it.block.token(src, old)
	if !ok {
		return change{}, errLayout
	}
	return change{from, to, quoteYAML(value, old.Style)}, nil
}

// insert adds a key after the id of the step.
func (it *yamlItem) insert(src []byte, name, value string) (change, error) {
	key, id := field(it.node, "id")
	_, to, ok := it.block.token(src, id)
	if !ok {
		return change{}, errLayout
	}
	text := name + ": " + quoteYAML(value, 0)
	if it.node.Style&yaml.FlowStyle != 0 {
		return change{to, to, ", " + text}, nil
	}
	line := it.block.lines[id.Line-1]
	begin := bytes.LastIndexByte(src[:line.from], '\n') + 1
	margin := string(src[begin:line.from])
	if strings.TrimSpace(margin) != "" || line.pad > 0 {
		return change{}, errLayout
	}
	end := line.from + len(bytes.TrimRight(src[line.from:line.to], "\r\n"))
	eol := string(src[end:line.to])
	if eol == "" {
		return change{}, errLayout
	}
	return change{end, end, eol + margin + strings.Repeat(" ", key.Column-1) + text}, nil
}

// token returns the position of a scalar in the file, including its quotes. ok is false if it spans several lines, or has a tag
// or an anchor.
func (b *yamlBlock) token(src []byte, n *yaml.Node) (from, to int, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Line < 1 || n.Line > len(b.lines) {
		return 0, 0, false
	}
	line := b.lines[n.Line-1]
	from = line.from
	for range n.Column - 1 - line.pad {
		if from >= line.to {
			return 0, 0, false
		}
		_, size := utf8.DecodeRune(src[from:line.to])
		from += size
	}
	rest := src[from:line.to]
	size := 0
	switch n.Style {
	case yaml.DoubleQuotedStyle:
		size = len(doubleQuoted().Find(rest))
	case yaml.SingleQuotedStyle:
		size = len(singleQuoted().Find(rest))
	case 0:
		if bytes.HasPrefix(rest, []byte(n.Value)) {
			size = len(n.Value)
		}
	}
	return from, from + size, size > 0
}

var (
	doubleQuoted = trellis.Pattern(`^"(?:[^"\\\r\n]|\\.)*"`)
	singleQuoted = trellis.Pattern(`^'(?:[^'\r\n]|'')*'`)
	plainWord    = trellis.Pattern(`^(?:pending|in_progress|done|blocked|skipped)$`)
)

// quoteYAML returns a value as YAML, in the quotes of the old value.
func quoteYAML(value string, style yaml.Style) string {
	switch {
	case value == "":
		return "null"
	case style == yaml.DoubleQuotedStyle:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
	case style == 0 && plainWord().MatchString(value):
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}
