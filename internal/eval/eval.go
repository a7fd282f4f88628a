// Package eval measures a planner. It has requirements for small projects, each with what a good planner makes of it, and marks
// for a planner that has planned them. docs/reference/eval.md explains how to read them.
package eval

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// set has one file for each project, and one with its cases. They are YAML so that a project can contain go.mod files and names
// that begin with a dot or an underscore, which are not embedded otherwise.
//
//go:embed set
var set embed.FS

// Decisions about a requirement. Failed means that the planner gave no usable answer.
const (
	Accept = "accept"
	Reject = "reject"
	Failed = "failed"
)

// Kinds of cases. The first two are to be accepted, the others to be rejected.
var Kinds = []string{"clear", "tiny", "vague", "incomplete", "out_of_scope", "harmful", "too_large"}

// Case is a requirement with the correct result.
type Case struct {
	ID          string       `yaml:"id"` // also the name of its task
	Kind        string       `yaml:"kind"`
	LooksLike   string       `yaml:"looks"` // the kind for which a hasty reader takes it
	DevType     string       `yaml:"dev_type"`
	Requirement string       `yaml:"requirement"`
	Accept      *Expectation `yaml:"accept"`
	Reject      []string     `yaml:"reject"` // correct categories, the best one first
	Project     *Project     `yaml:"-"`
}

// Expectation is what the plan of an accepted requirement is checked for. What concerns plan.json is not checked if a plan took the
// short way, which has none.
type Expectation struct {
	Sizes    []trellis.Size `yaml:"sizes"`
	Cites    []string       `yaml:"cites"`     // globs: a context file or plan.json must name a matching path
	Changes  []string       `yaml:"changes"`   // globs: plan.json must change a matching file
	Spares   []string       `yaml:"spares"`    // globs: plan.json must not change a matching file
	Verified int            `yaml:"verified"`  // minimum number of acceptance criteria with a command
	Mentions []string       `yaml:"mentions"`  // regular expressions: requirements or acceptance criteria in prd.md must match
	Never    []string       `yaml:"never"`     // regular expressions: no command may match
	MaxSteps int            `yaml:"max_steps"` // maximum number of steps in plan.json
}

// Wanted returns the correct decision.
func (c Case) Wanted() string {
	if c.Accept != nil {
		return Accept
	}
	return Reject
}

// Load returns the cases whose id, kind or project matches the glob only, such as parcels-*, in the order of projects and then
// of their files. It returns path.ErrBadPattern if only is not a valid glob.
func Load(only string) ([]Case, error) {
	names, err := fs.Glob(set, "set/projects/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the eval set: %w", err)
	}
	var list []Case
	for _, name := range names {
		p := &Project{Name: strings.TrimSuffix(path.Base(name), ".yaml")}
		var cases []Case
		if err := errors.Join(decode(name, p), decode("set/cases/"+p.Name+".yaml", &cases)); err != nil {
			return nil, err
		}
		for _, c := range cases {
			c.Project = p
			fits, err := c.matches(only)
			if err != nil {
				return nil, err
			}
			if fits {
				list = append(list, c)
			}
		}
	}
	return list, nil
}

func (c Case) matches(glob string) (bool, error) {
	for _, name := range []string{c.ID, c.Kind, c.Project.Name} {
		if ok, err := path.Match(glob, name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func decode(name string, out any) error {
	data, err := set.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading the eval set: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(out); err != nil {
		return fmt.Errorf("reading %s of the eval set: %w", name, err)
	}
	return nil
}
