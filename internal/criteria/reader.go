package criteria

import (
	"slices"
	"strings"
	"unicode"
)

// reader reads the lines of one section.
type reader struct {
	*document
	list       []*openItem // the items of the section so far
	preambles  []preamble  // lines that belong to the next item
	verifyItem *openItem   // the item whose verify line names no command yet
	verifyLine line        // that verify line
	gap        bool        // a blank line or a break precedes this one
}

// preamble is a line before an item that belongs to it: a heading, an introduction, the head of a table, an example.
type preamble struct {
	line, end int
	text      string // text of the item that it becomes if no item follows; "" if it can't become one
	level     int    // of a heading, 0 for others
	what      string
}

// openItem is an item that may still grow.
type openItem struct {
	Item
	indent    int
	words     []string
	commands  []string
	paragraph bool // it is a paragraph
	listed    bool // it has a marker
	scenario  int  // the step that a scenario has reached; 0: it is not a scenario
	hasLabel  bool
}

func (o *openItem) add(s string, at int) {
	if s != "" {
		o.words = append(o.words, s)
	}
	o.End = max(o.End, at)
}

func (r *reader) lastItem() *openItem {
	if len(r.list) == 0 {
		return nil
	}
	return r.list[len(r.list)-1]
}

// read reads what begins at index i and returns the index after it.
func (r *reader) read(i, end int) int {
	l := r.lines[i]
	switch {
	case l.kind == blank:
		r.gap = true
		return i + 1
	case l.kind == comment:
		return i + 1
	case l.kind == rule:
		if mark, _ := fenceOf(l.bare); mark != "" {
			r.attach(l.number, l.number)
		}
		r.gap = true
		return i + 1
	case l.kind == fence || l.kind == code:
		return r.readCodeBlock(i, end)
	}
	defer func() { r.gap = false }()
	if h, ok := r.heading(i); ok && r.isHeadingHere(h, l) {
		r.addHeading(h, l)
		return i + h.size
	}
	if i+1 < end && r.lines[i+1].kind == text && strings.Contains(l.bare, "|") && isDelimiter(r.lines[i+1].bare) {
		if n := r.readTable(i, end); n > i {
			return n
		}
	}
	if maybeTableRow(l.bare) && (r.gap || r.lastItem() == nil || !r.lastItem().listed || l.indent <= r.lastItem().indent) {
		r.errorf(l.number, "a line of dashes below the head: | --- | --- |", "this looks like the row of a table, but there is no table here")
		return i + 1
	}
	r.readLine(l)
	return i + 1
}

// isHeadingHere reports whether a heading is one in this place, and not part of an item.
func (r *reader) isHeadingHere(h heading, l line) bool {
	if h.level <= lowestLevel {
		return true
	}
	return !h.bullet && h.rest == "" && !h.isSentence() && (r.lastItem() == nil || l.indent == 0 && (r.gap || r.lastItem().listed)) && !isScenarioLine(l.bare)
}

// addHeading adds a heading within the section.
func (r *reader) addHeading(h heading, l line) {
	r.closeVerify()
	r.convertPreambles(h.level)
	name := strings.TrimSpace(strings.Trim(h.text, "*_"))
	r.preambles = append(r.preambles, preamble{line: l.number, end: l.number + h.size - 1, text: name, level: h.level, what: "heading"})
	r.gap = true
}

// convertPreambles turns headings without anything below them into items. The last one is kept if what follows is a heading of a
// lower level.
func (r *reader) convertPreambles(level int) {
	waiting := r.preambles
	r.preambles = nil
	var above []preamble
	var made *openItem
	for i, l := range waiting {
		last := i+1 == len(waiting)
		switch {
		case l.level > 0 && last && l.level < level:
			r.preambles = append(above, l)
		case l.level > 0 && !last && (waiting[i+1].level == 0 || waiting[i+1].level > l.level):
			above = append(above, l)
		case l.text != "":
			made, above = r.addFromPreambles(append(above, l)), nil
		case len(above) > 0:
			made, above = r.addFromPreambles(above), nil
			made.End = l.end
		case made != nil:
			made.End = l.end
		default:
			r.errorf(l.line, "say in words what has to hold", "this %s belongs to no acceptance criterion", l.what)
		}
	}
}

// addFromPreambles makes an item from the last of some headings or introductions.
func (r *reader) addFromPreambles(list []preamble) *openItem {
	l := list[len(list)-1]
	o := &openItem{Item: Item{Line: l.line, First: list[0].line, End: l.end}, words: []string{l.text}}
	r.list = append(r.list, o)
	return o
}

// startItem begins an item. The lines that lead to it are part of it.
func (r *reader) startItem(at line, o *openItem) {
	o.Line, o.First, o.End, o.indent = at.number, at.number, at.number, at.indent
	if len(r.preambles) > 0 {
		o.First = r.preambles[0].line
		r.preambles = nil
	}
	r.list = append(r.list, o)
}

// convertIntroduction turns the last item into a preamble if it only introduces what follows at this line.
func (r *reader) convertIntroduction(at line) {
	o := r.lastItem()
	if o == nil || len(r.preambles) > 0 || len(o.commands) > 0 || o.Level != "" || len(o.words) == 0 || o.listed && at.indent <= o.indent {
		return
	}
	if o.listed || o.paragraph {
		if said := strings.Join(o.words, " "); strings.HasSuffix(said, ":") || strings.HasSuffix(said, "：") {
			r.list = r.list[:len(r.list)-1]
			r.preambles = append(r.preambles, preamble{line: o.First, end: o.End, text: said, what: "introduction"})
		}
	}
}

// readLine reads a line of text, with or without a marker.
func (r *reader) readLine(l line) {
	m := markerOf(l.bare)
	said := l.bare
	if m.found() {
		said = m.text
	}
	k, ok := keyOf(said)
	if ok && r.isKey(k, l, m) {
		r.closeVerify()
		r.readKey(k, l)
		return
	}
	if r.verifyItem != nil && r.addPendingCommand(l, m) {
		return
	}
	if !ok {
		r.warnMisspelled(said, l, m)
	}
	switch {
	case m.found() && r.continueScenario(said, l):
	case m.found():
		r.convertIntroduction(l)
		r.startItem(l, &openItem{listed: true, scenario: reachedStep(said, 0)})
		r.lastItem().add(said, l.number)
	default:
		r.readText(l)
	}
}

// readText reads a line without a marker. It belongs to the item before it, or begins a paragraph.
func (r *reader) readText(l line) {
	o := r.lastItem()
	unspaced, dash := strings.CutPrefix(l.bare, "-") // a marker without its space
	switch {
	case o != nil && len(r.preambles) == 0 && r.readScenario(l):
	case o == nil || len(r.preambles) > 0 || r.gap && !(o.listed && l.indent > o.indent) || dash && unicode.IsLetter(firstRune(unspaced)) || o.hasLabel && hasLabel(l.bare):
		r.startItem(l, &openItem{paragraph: true, hasLabel: hasLabel(l.bare), scenario: reachedStep(l.bare, 0)})
		r.lastItem().add(l.bare, l.number)
	default:
		o.add(l.bare, l.number)
	}
}

// isKey reports whether a line that looks like a key is one. With a checkbox, or beside other items rather than below one, it is
// an item unless its value is unambiguous.
func (r *reader) isKey(k key, l line, m marker) bool {
	o := r.lastItem()
	if o == nil && len(r.preambles) == 0 {
		return k.name == "level" || strings.HasPrefix(k.value, "`")
	}
	below := o != nil && len(r.preambles) == 0 && (l.indent > o.indent || !m.found() && !r.gap || r.isNested(l))
	list, clear := commandsIn(k)
	inCode := clear && len(list) > 0 && strings.Contains(k.value, "`")
	level := k.name == "level" && levelOf(k.value) != ""
	if m.box {
		return below && l.indent > o.indent && (inCode || level)
	}
	if below {
		return k.plain || k.value == "" || inCode
	}
	return inCode || level || k.name == "verify" && k.plain && k.value == ""
}

// isNested reports whether a line is below an item further up.
func (r *reader) isNested(l line) bool {
	return l.indent > 0 && r.owner(l) != nil && r.owner(l).indent < l.indent
}

// owner returns the item that a line is below: the last one that is indented less than the line, or else the last one.
func (r *reader) owner(l line) *openItem {
	for i := len(r.list) - 1; i >= 0 && i >= len(r.list)-maxDepth; i-- {
		if r.list[i].indent < l.indent {
			return r.list[i]
		}
	}
	return r.lastItem()
}

// maxDepth is how many items owner searches.
const maxDepth = 100

// readKey reads a verify or a level line.
func (r *reader) readKey(k key, l line) {
	if len(r.preambles) > 0 {
		r.addFromHeading()
	}
	o := r.owner(l)
	if o == nil {
		r.errorf(l.number, "write it below the criterion that it is about", "this %s line is not below an acceptance criterion", k.name)
		return
	}
	o.End = max(o.End, l.number)
	if k.name == "level" {
		if o.Level = levelOf(k.value); o.Level == "" {
			r.errorf(l.number, "level: must, or level: should", "level %q is neither must nor should", k.value)
		}
		return
	}
	if k.value == "" {
		r.verifyItem, r.verifyLine = o, l
		return
	}
	list, clear := commandsIn(k)
	if !clear {
		r.reportUnclear(l.number)
	}
	o.commands = append(o.commands, list...)
}

func (r *reader) reportUnclear(at int) {
	r.errorf(at, "verify: `command`, with nothing else on the line; what no command shows belongs to the text of the criterion", "this verify line names no clear command: it is read as one command, or as several in code with nothing but \"and\" between them")
}

// addFromHeading makes an item from the last heading, since a verify line follows it.
func (r *reader) addFromHeading() {
	waiting := r.preambles
	for i := len(waiting) - 1; i >= 0; i-- {
		if waiting[i].text != "" {
			r.addFromPreambles(waiting[:i+1]).End = waiting[len(waiting)-1].end
			r.preambles = nil
			return
		}
	}
}

func levelOf(value string) string {
	switch s := strings.ToLower(strings.Trim(value, "*_`. ")); s {
	case "must", "should":
		return s
	}
	return ""
}

// addPendingCommand reports whether a line names the command that a verify line before it left out, and adds that command.
func (r *reader) addPendingCommand(l line, m marker) bool {
	o, value := r.verifyItem, l.bare
	if m.found() {
		value = m.text
	}
	if l.indent <= r.verifyLine.indent && (m.found() || l.indent <= o.indent) {
		r.closeVerify()
		return false
	}
	list, clear := commandsIn(key{"verify", value, true})
	if !clear || value == "" {
		r.reportUnclear(l.number)
	}
	o.commands, o.End = append(o.commands, list...), max(o.End, l.number)
	if !m.found() {
		r.verifyItem = nil
	}
	return true
}

func (r *reader) closeVerify() {
	if r.verifyItem != nil && len(r.verifyItem.commands) == 0 {
		r.reportUnclear(r.verifyLine.number)
	}
	r.verifyItem = nil
}

// readCodeBlock reads a code block: the commands of a verify line, or an example of an item.
func (r *reader) readCodeBlock(i, end int) int {
	at, n := r.lines[i], i+1
	var body []string
	for n < end && r.lines[n].kind == code {
		body = append(body, r.lines[n].bare)
		n++
	}
	if n < end && r.lines[n].kind == fence {
		n++
	}
	last := r.lines[n-1].number
	switch {
	case r.verifyItem != nil:
		list, ok := blockCommands(body)
		if !ok {
			r.errorf(at.number, "put it into a file, and name that", "this block is not a list of commands, one a line, that can be run one after the other")
			list = nil
		}
		r.verifyItem.commands, r.verifyItem.End, r.verifyItem = append(r.verifyItem.commands, list...), last, nil
	default:
		r.attach(at.number, last)
	}
	return n
}

// attach adds the lines of a code block to the item before them, or to the one that follows.
func (r *reader) attach(from, to int) {
	if o := r.lastItem(); o != nil && len(r.preambles) == 0 {
		o.End = to
		return
	}
	r.preambles = append(r.preambles, preamble{line: from, end: to, what: "code block"})
}

// readTable reads the table whose head is at index i and returns the index after it, or i if there is no table.
func (r *reader) readTable(i, end int) int {
	head := cells(r.lines[i].bare)
	if len(cells(r.lines[i+1].bare)) != len(head) {
		return i
	}
	r.closeVerify()
	r.convertIntroduction(r.lines[i])
	r.preambles = append(r.preambles, preamble{line: r.lines[i].number, end: r.lines[i+1].number, what: "head of a table"})
	c, n := columnsOf(head), i+2
	c.warnMisspelled(r.document, r.lines[i].number)
	for ; n < end && r.lines[n].kind == text && strings.Contains(r.lines[n].bare, "|"); n++ {
		r.readRow(c, r.lines[n])
	}
	r.gap = true
	return n
}

func (r *reader) readRow(c columns, l line) {
	values := cells(l.bare)
	if len(values) > len(c.titles) {
		r.errorf(l.number, `\| for a bar that is text`, "this row has %d cells, the head of the table has %d", len(values), len(c.titles))
		values = values[:len(c.titles)]
	}
	said, verify, level := c.parseRow(values)
	o := &openItem{}
	r.startItem(l, o)
	o.add(said, l.number)
	if level != "" {
		if o.Level = levelOf(level); o.Level == "" {
			r.errorf(l.number, "must, or should", "level %q is neither must nor should", level)
		}
	}
	if verify == "" {
		return
	}
	list, clear := commandsIn(key{"verify", verify, c.plain})
	switch {
	case clear:
		o.commands = list
	case c.plain && !isProse(verify):
		r.reportUnclear(l.number)
	default:
		o.add("("+c.titles[c.verify]+": "+verify+")", l.number)
	}
}

// finish turns what was read into items.
func (r *reader) finish() {
	r.closeVerify()
	r.convertPreambles(0)
	for _, o := range r.list {
		r.finishItem(o)
	}
}

func (r *reader) finishItem(o *openItem) {
	content := strings.Join(o.words, " ")
	if len(o.commands) == 0 {
		content, o.commands = splitVerify(content)
	}
	if m := plainVerifyEnd().FindStringSubmatch(content); m != nil && len(o.commands) == 0 && !isProse(m[1]) {
		r.warnf(o.Line, "put it in code: (verify: `command`)", "what this acceptance criterion is to be verified with is not in code, and is not run")
	}
	r.warnMisspelledEnd(o, content)
	bare := strings.ToLower(strings.Trim(content, "*_`()[]<>. "))
	if strings.Trim(content, ".…") == "" {
		bare = ""
	}
	if slices.Contains(placeholders, bare) {
		r.errorf(o.Line, "say what has to hold, or take the line out", "an acceptance criterion that says nothing yet: %q", content)
		return
	}
	if strings.HasPrefix(content, "~~") && strings.HasSuffix(content, "~~") && strings.Count(content, "~~") == 2 && len(content) > 4 {
		r.warnf(o.Line, "take the line out", "this acceptance criterion is struck out and does not count")
		return
	}
	o.Text, o.Verify = content, joinCommands(o.commands)
	r.items = append(r.items, o.Item)
}
