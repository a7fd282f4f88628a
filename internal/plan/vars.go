package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// checkVars checks the values of vars: each needs one in a task, where nobody could give it, and in the vars of a step.
func (c *checker) checkVars(at string, vars map[string]*string) {
	for _, name := range names(vars) {
		v := vars[name]
		switch {
		case v == nil && at != "/vars":
			c.add(at+"/"+name, "%s has no value", name).Hint = "leave it out where the other file has a value"
		case v == nil && c.task:
			c.add(at+"/"+name, "%s has no value: a task's plan has to set every value", name)
		}
		if v == nil {
			continue
		}
		_, given := c.given[name]
		file := slices.ContainsFunc(c.steps, func(s placedStep) bool { return s.Output == name || slices.Contains(s.Context, name) })
		if found := placeholders(*v); len(found) > 0 && at == "/vars" && !given && !file {
			c.warn(at+"/"+name, "{{%s}} in the value of a var stays as it is", found[0])
		}
	}
}

// texts returns the fields of a step in which placeholders are replaced, with the loop variables that they may use: for_each is
// evaluated before its own loop's variable is set.
func (s *placedStep) texts() (list []templated) {
	outer := s.loops
	if s.Step.Loop() != "" {
		outer = s.loops[:len(s.loops)-1]
	}
	add := func(field, value string, vars []string) {
		if value != "" {
			list = append(list, templated{field, value, vars})
		}
	}
	add("title", s.Title, s.loops)
	add("prompt", s.Prompt, s.loops)
	add("command", s.Command, s.loops)
	add("message", s.Message, s.loops)
	add("workflow", s.Workflow, s.loops)
	add("verify", s.Verify, s.loops)
	for _, name := range names(s.Vars) {
		if v := s.Vars[name]; v != nil {
			add("vars/"+name, *v, s.loops)
		}
	}
	if s.ForEach != nil {
		add("for_each", s.ForEach.Command, outer)
		for i, item := range s.ForEach.Items {
			add(fmt.Sprintf("for_each/%d", i), item, outer)
		}
	}
	return list
}

// templated is a field in which placeholders are replaced, and its loop variables.
type templated struct {
	field, value string
	loops        []string
}

// checkReferences checks what a step refers to: placeholders, and the files that it writes and gets.
func (c *checker) checkReferences(s *placedStep) {
	c.checkVars(s.pointer+"/vars", s.Vars)
	for _, t := range s.texts() {
		c.checkPlaceholders(s, t.field, t.value, t.loops)
	}
	if s.Output != "" {
		c.checkOutput(s)
	}
	for i, name := range s.Context {
		c.checkContext(s, fmt.Sprintf("context/%d", i), name)
	}
}

// checkPlaceholders reports placeholders that have no value.
func (c *checker) checkPlaceholders(s *placedStep, field, value string, loops []string) {
	for _, name := range placeholders(value) {
		if _, there := c.p.Vars[name]; !there && !slices.Contains(loops, name) {
			p := c.addStepProblem(s, field, "{{%s}} in %s is neither one of vars nor the variable of a loop", name, base(field))
			p.Hint = c.placeholderHint(name, loops)
			p.Warning = c.p.tool == "tascer" || c.p.tool != "" && field == "title" // these tools replace nothing there
		}
	}
}

// base returns the name of a field without an index or key.
func base(field string) string {
	name, _, _ := strings.Cut(field, "/")
	return name
}

func (c *checker) placeholderHint(name string, loops []string) string {
	if near := trellis.Nearest(name, append(names(c.p.Vars), loops...)); near != "" {
		return "did you mean {{" + near + "}}?"
	}
	return "declare it in vars"
}

// fileVar returns the value of a var that names a file. ok is false if there is no such var, or no usable value.
func (c *checker) fileVar(s *placedStep, field, name string) (string, bool) {
	v, there := c.p.Vars[name]
	if !there {
		c.addStepProblem(s, field, "%s names %s, which is not one of vars", base(field), name).Hint = "declare it with the path of a file"
		return "", false
	}
	if v == nil {
		return "", false
	}
	c.checkPlaceholders(s, field, *v, s.loops)
	if why := pathFault(*v); why != "" {
		c.addStepProblem(s, field, "%s names %s, whose value %s %s", base(field), name, *v, why)
		return "", false
	}
	return *v, true
}

func (c *checker) checkOutput(s *placedStep) {
	v, ok := c.fileVar(s, "output", s.Output)
	if loop := s.Step.Loop(); ok && loop != "" && !slices.Contains(placeholders(v), loop) {
		c.addStepProblem(s, "output", "every round of the loop writes the same file, %s", v).asWarning("put {{" + loop + "}} into the path")
	}
}

// checkContext checks whether the file will exist when the step begins.
func (c *checker) checkContext(s *placedStep, field, name string) {
	v, ok := c.fileVar(s, field, name)
	if !ok || c.Exists == nil || len(placeholders(v)) > 0 {
		return
	}
	for _, o := range c.steps {
		if o.pointer == s.pointer {
			break
		}
		if o.Output == name {
			return
		}
	}
	isNew := slices.ContainsFunc(c.p.Files, func(f File) bool { return path.Clean(f.Path) == path.Clean(v) })
	if there, err := c.Exists(path.Clean(v)); err == nil && !there && !isNew {
		c.addStepProblem(s, field, "no step before it writes %s", v).asWarning(`give the step that makes it "output": "` + name + `"`)
	}
}
