package plan

import (
	"maps"
	"slices"
	"strconv"
)

// executant converts a file of executant: a goal, vars, and steps that have names.
func (c *converter) executant(root *node) *node {
	e := executant{converter: c, names: map[string]*node{}}
	out := object(root)
	out.put("schema_version", &node{text: "1", line: root.line})
	goal := root.value("goal")
	putTitle(out, goal, "summary")
	for _, m := range root.members {
		switch m.key {
		case "goal":
		case "vars":
			e.vars = m.node
			out.put("vars", m.node)
		case "steps":
		case "self_improve":
			c.skip(m.node)
		default:
			c.warnUnknown(m, []string{"goal", "vars", "steps"})
		}
	}
	if steps := root.value("steps"); steps != nil {
		out.put("steps", e.steps(steps, 0))
	}
	if c.task {
		out.put("acceptance", singleCriterion(goal, goal))
	}
	return out
}

// singleCriterion returns a list with the first line of a text as the only criterion.
func singleCriterion(from, at *node) *node {
	a := object(at)
	a.put("criterion", textAt(firstLine(from.trimmedText()), at))
	return array(at, a)
}

type executant struct {
	*converter
	vars  *node
	names map[string]*node // names of the top-level steps
}

// steps converts a list of steps inside that many loops.
func (e *executant) steps(list *node, loops int) *node {
	if list.open != '[' {
		return list
	}
	out := array(list)
	for i, n := range list.items {
		if n.open == '{' {
			n = e.step(n, i, loops, list.origin == "/steps")
		}
		out.items = append(out.items, n)
	}
	return out
}

func (e *executant) step(n *node, i, loops int, top bool) *node {
	out := object(n)
	e.name(n, out, i, top)
	kind, known := e.kind(n)
	if known {
		out.put("type", textAt(kind, n))
	}
	looped := n.value("forEach") != nil || n.value("repeat") != nil
	if kind == Group && !looped {
		e.addProblem(n, "steps", "steps need a loop in files of executant").Hint = "give the step forEach or repeat"
	}
	if looped {
		e.loop(n, out, loops)
		loops++
	}
	for _, m := range n.members {
		e.field(m, out, kind, known, looped)
	}
	if steps := n.value("steps"); steps != nil {
		out.put("steps", e.steps(steps, loops))
	}
	if kind == Log {
		e.message(n, out)
	}
	return out
}

// name sets a step's title and id from its name.
func (e *executant) name(n, out *node, i int, top bool) {
	name := n.value("name")
	s, isText := name.str()
	switch first := e.names[s]; {
	case name == nil:
		e.addProblem(n, "name", "is missing")
	case !isText:
		out.put("title", name)
	case top && first != nil:
		e.addProblem(name, "", "%s is the name of another step too, in line %d", s, first.line)
	default:
		if top {
			e.names[s] = name
		}
		if name.trimmedText() != "" {
			putTitle(out, name, "")
		}
	}
	from := n
	if name != nil {
		from = name
	}
	out.put("id", textAt(e.uniqueID(s, "step_"+strconv.Itoa(i+1)), from))
}

// kind returns the kind of an executant step. known reports whether executant has such a kind.
func (e *executant) kind(n *node) (kind string, known bool) {
	has := func(key string) bool { return n.value(key) != nil }
	typ := n.value("type")
	kind, isText := typ.str()
	switch {
	case has("steps"):
		return Group, true
	case typ == nil && has("workflow"):
		return Workflow, true
	case typ == nil && has("command"):
		return Script, true
	case typ == nil && has("message") && !has("prompt"):
		return Log, true
	case typ == nil:
		return Prompt, true
	case kind == "command":
		return Script, true
	case slices.Contains([]string{Prompt, Script, Log, Workflow}, kind):
		return kind, true
	case isText:
		e.addProblem(typ, "", "must be one of prompt, script, command, log, workflow, not %q", kind)
	default:
		e.addProblem(typ, "", "must be a string")
	}
	return kind, false
}

// loop converts forEach and repeat. All loops of executant have the same variable, and that of an outer loop wins.
func (e *executant) loop(n, out *node, loops int) {
	for _, key := range []string{"forEach", "repeat"} {
		from := n.value(key)
		if from == nil {
			continue
		}
		if key == "forEach" {
			out.put("for_each", items(from))
		} else {
			out.put("repeat", from)
		}
		if name := e.variable(loops); loops > 0 && out.value("as") == nil {
			out.put("as", textAt(name, from))
			e.warn(from, "its own item is {{"+name+"}}", "{{item}} in this loop is the item of the loop around it, as it is to executant")
		}
	}
}

// variable returns the name of the variable of a loop inside that many others.
func (e *executant) variable(loops int) string {
	name := "item_" + strconv.Itoa(loops+1)
	for e.vars.value(name) != nil {
		name += "_"
	}
	return name
}

// items returns a list without its empty texts, or any other value unchanged.
func items(from *node) *node {
	if from.open != '[' {
		return from
	}
	out := array(from)
	for _, item := range from.items {
		if s, isText := item.str(); !isText || s != "" {
			out.items = append(out.items, item)
		}
	}
	return out
}

// message sets the message of a log step: its message, else its prompt, else its name.
func (e *executant) message(n, out *node) {
	for _, key := range []string{"message", "prompt", "name"} {
		if from := n.value(key); from != nil {
			out.put("message", from)
			return
		}
	}
}

// executantFields returns the keys of a step that are converted, each with the kinds of steps that it is for.
func executantFields() map[string][]string {
	agent, process, all := []string{Prompt}, []string{Prompt, Script}, []string{Prompt, Script, Workflow, Group}
	return map[string][]string{
		"prompt": {Prompt, Group}, "command": {Script, Group}, "message": {Group}, "workflow": {Workflow}, "vars": {Workflow},
		"continue_on_error": all, "timeout_seconds": process, "concurrency": append(all, Log), "self_healing": {Script}, "max_healing_attempts": {Script},
		"output": {Prompt, Script, Log, Workflow}, "context": agent, "llm_as_judge": agent, "allowed_tools": agent, "provider": agent, "model": agent,
	}
}

// field converts one key of a step. A key that executant would ignore is skipped with a warning.
func (e *executant) field(m member, out *node, kind string, known, looped bool) {
	elsewhere := []string{"name", "type", "forEach", "repeat", "steps"}
	if slices.Contains(elsewhere, m.key) || kind == Log && (m.key == "message" || m.key == "prompt") {
		return
	}
	fields := executantFields()
	kinds, there := fields[m.key]
	switch {
	case !there && m.key == "agent":
		e.warn(m.node, "provider names the program, and is agent here", "agent, a persona of the program, means nothing here, and is ignored")
	case !there:
		e.warnUnknown(m, append(elsewhere, slices.Sorted(maps.Keys(fields))...))
	case known && !slices.Contains(kinds, kind):
		if !m.node.empty() {
			e.warn(m.node, "", "%s does not apply to %s step, and is ignored", m.key, withArticle(kind))
		}
	case m.key == "concurrency" && !looped:
		e.warn(m.node, "", "concurrency is for a loop, and is ignored")
	case m.key == "provider":
		out.put("agent", m.node)
	default:
		out.put(m.key, m.node)
	}
}
