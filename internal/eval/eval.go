// Package eval measures a planner: requirements over small projects, each with what a good planner makes
// of it, and the marks of one that has planned them. docs/reference/eval.md tells how to read them.
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

// set has one file a project, and one with its cases. They are YAML, so that go.mod files and names that
// begin with a dot or an underscore can be among a project's files.
//
//go:embed set
var set embed.FS

// Decisions about a requirement. Failed is none: the planner gave no answer that could be used.
const (
	Accept = "accept"
	Reject = "reject"
	Failed = "failed"
)

// Kinds of cases. Those of the first two are to be accepted, the others to be rejected.
var Kinds = []string{"clear", "tiny", "vague", "incomplete", "out_of_scope", "harmful", "too_large"}

// Case is a requirement and what a good planner makes of it.
type Case struct {
	ID          string   `yaml:"id"` // the name of its task too
	Kind        string   `yaml:"kind"`
	Looks       string   `yaml:"looks"` // the kind that a hasty reader takes it for
	DevType     string   `yaml:"dev_type"`
	Requirement string   `yaml:"requirement"`
	Accept      *Accepts `yaml:"accept"`
	Reject      []string `yaml:"reject"` // categories that are right, the best one first
	Project     *Project `yaml:"-"`
}

// Accepts is what the plan of an accepted requirement is looked through for. What only a plan.json can say
// is not asked of a plan that took the short way.
type Accepts struct {
	Sizes    []trellis.Size `yaml:"sizes"`
	Cites    []string       `yaml:"cites"`     // globs: a context file or plan.json names a path that fits
	Changes  []string       `yaml:"changes"`   // globs: plan.json changes a file that fits
	Spares   []string       `yaml:"spares"`    // globs: plan.json changes no file that fits
	Verified int            `yaml:"verified"`  // so many acceptance criteria have a command
	Mentions []string       `yaml:"mentions"`  // regular expressions: requirements or acceptance criteria of prd.md fit
	Never    []string       `yaml:"never"`     // regular expressions: no command fits
	MaxSteps int            `yaml:"max_steps"` // of plan.json
}

// Wanted is the right decision.
func (c Case) Wanted() string {
	if c.Accept != nil {
		return Accept
	}
	return Reject
}

// Load is the part of the set whose id, kind or project fits a glob such as parcels-*, in the order of
// projects and then of their files. path.ErrBadPattern: it is no glob.
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
			fits, err := c.fits(only)
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

func (c Case) fits(glob string) (bool, error) {
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
