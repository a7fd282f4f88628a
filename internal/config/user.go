package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// User has what the user sets for all repositories of a machine, in a file outside of them. Sandbox, Approval and
// Limits are floors: settings of a project may be stricter, and are raised to the floors where they are not.
type User struct {
	Trust    Trust  `yaml:"trust"`
	Sandbox  string `yaml:"sandbox" oneof:"off auto require" doc:"the minimum sandbox for every project: off, auto (if available), require"`
	Approval string `yaml:"approval" oneof:"none plan" doc:"plan: every plan waits for a person, in every project"`
	Limits   Limits `yaml:"limits"`
}

// Trust says what may run here although nobody on this machine wrote it.
type Trust struct {
	Branch     string   `yaml:"branch" doc:"the branch whose content is trusted, such as origin/main; empty: the remote's default branch"`
	Keys       []string `yaml:"keys" doc:"files with public keys (Ed25519, PEM) whose approvals count, absolute or below ~/"`
	Everything []string `yaml:"everything" doc:"folders in which everything checked out may run, absolute or below ~/"`
}

// LoadUser returns the User of a file. Like Load it always returns one, with what could be used.
func LoadUser(f File) (*User, []trellis.Problem) {
	u := User{}
	d := decode(f, &u, []string{})
	d.homePaths("trust.keys", u.Trust.Keys)
	d.homePaths("trust.everything", u.Trust.Everything)
	slices.SortStableFunc(d.problems, func(a, b trellis.Problem) int { return a.Line - b.Line })
	return &u, d.problems
}

// homePaths reports paths that are neither absolute nor below the home folder.
func (d *decoder) homePaths(key string, paths []string) {
	for i, p := range paths {
		if !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "~/") {
			d.report(itemKey(key, i), " is a path that begins with / or ~/, not %q", p)
		}
	}
}

// UserTable returns the table of the keys of a User, like [Table].
func UserTable() []Row { return rows(reflect.ValueOf(User{}), "", "") }

// ApplyFloors makes the settings of a project as strict as the user's floors, and returns a sentence for each that it changed.
func (u *User) ApplyFloors(c *Config) (raised []string) {
	stricter := func(key string, to *string, floor string, order ...string) {
		if slices.Index(order, floor) > slices.Index(order, *to) {
			raised = append(raised, fmt.Sprintf("%s is %s, not %s", key, floor, *to))
			*to = floor
		}
	}
	stricter("sandbox", &c.Sandbox, u.Sandbox, "off", "auto", "require")
	stricter("planning.approval", &c.Planning.Approval, u.Approval, "none", "plan")
	return append(raised, lowerLimits(&c.Limits, u.Limits)...)
}

// lowerLimits lowers each limit to that of a floor. Zero means no limit in both.
func lowerLimits(limits *Limits, floor Limits) (lowered []string) {
	to, from := reflect.ValueOf(limits).Elem(), reflect.ValueOf(floor)
	for i := range to.NumField() {
		name := "limits." + to.Type().Field(i).Tag.Get("yaml")
		if to.Field(i).Kind() == reflect.Map {
			lowered = append(lowered, lowerAgents(limits, floor.PerAgent)...)
		} else if isLooser(to.Field(i), from.Field(i)) {
			lowered = append(lowered, fmt.Sprintf("%s is %s, not %s", name, limitWords(from.Field(i)), limitWords(to.Field(i))))
			to.Field(i).Set(from.Field(i))
		}
	}
	return lowered
}

func lowerAgents(limits *Limits, floor map[string]int) (lowered []string) {
	for _, agent := range sortedKeys(floor) {
		is, isSet := limits.PerAgent[agent]
		if isSet && is <= floor[agent] {
			continue
		}
		if limits.PerAgent == nil {
			limits.PerAgent = map[string]int{}
		}
		limits.PerAgent[agent] = floor[agent]
		lowered = append(lowered, fmt.Sprintf("limits.per_agent.%s is %d", agent, floor[agent]))
	}
	return lowered
}

// isLooser reports whether a limit allows more than a floor that is set.
func isLooser(limit, floor reflect.Value) bool {
	if floor.IsZero() {
		return false
	}
	if limit.IsZero() {
		return true
	}
	if limit.CanFloat() {
		return limit.Float() > floor.Float()
	}
	return limit.Int() > floor.Int()
}

func limitWords(v reflect.Value) string {
	switch d, isTime := v.Interface().(time.Duration); {
	case v.IsZero():
		return "unlimited"
	case isTime:
		return duration(d)
	}
	return fmt.Sprint(v)
}
