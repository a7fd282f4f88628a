package trellis

// Role is the part that an agent plays in a task. A role has one permission and one directory to work in.
type Role string

const (
	Evaluate  Role = "evaluate"
	TaskSpec  Role = "taskspec"
	Research  Role = "research"
	Plan      Role = "plan"
	PRD       Role = "prd"
	Judge     Role = "judge"
	Implement Role = "implement"
	Check     Role = "check"
	Debug     Role = "debug"
	Accept    Role = "accept"
	Grade     Role = "grade"
	Heal      Role = "heal"
)

// Roles lists all roles in the order of a task's phases.
var Roles = []Role{Evaluate, TaskSpec, Research, Plan, PRD, Judge, Implement, Check, Debug, Accept, Grade, Heal}

// Permission is what an agent may do.
type Permission string

const (
	PermitNone Permission = "none" // no tools
	PermitRead Permission = "read" // files and search; no shell, no write
	PermitEdit Permission = "edit" // files and shell inside the directory
	PermitFull Permission = "full" // no sandbox; only when the project's config says so
)

// Permissions lists all permissions, the narrowest first.
var Permissions = []Permission{PermitNone, PermitRead, PermitEdit, PermitFull}

// Permission returns the role's permission unless something narrows it.
func (r Role) Permission() Permission {
	switch r {
	case TaskSpec, Judge:
		return PermitNone
	case Implement, Check, Debug, Heal:
		return PermitEdit
	}
	return PermitRead
}

// IsPlanning reports whether the role works in the main checkout, before there is a worktree.
func (r Role) IsPlanning() bool {
	switch r {
	case Evaluate, TaskSpec, Research, Plan, PRD, Judge:
		return true
	}
	return false
}
