package config_test

import (
	"fmt"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// No role has the permission full unless the project gives it, and only roles that edit can be given it.
func TestNoRoleIsFullByItself(t *testing.T) {
	for _, text := range []string{"", standard, "agents: {roles: {implement: {agent: claude}}}\n"} {
		c, problems := load(text, "")
		if len(problems) > 0 {
			t.Fatal(said(problems))
		}
		for _, role := range trellis.Roles {
			for _, file := range append([]trellis.Permission{""}, trellis.Permissions...) {
				if got := c.PermissionFor(role, file); got == trellis.PermitFull {
					t.Errorf("%s has %s, with %q in its file", role, got, file)
				}
			}
		}
	}
	for _, role := range trellis.Roles {
		c, problems := load(fmt.Sprintf("agents: {roles: {%s: {permission: full}}}\n", role), "")
		edits := role.Permission() == trellis.PermitEdit
		if got := c.PermissionFor(role, ""); got == trellis.PermitFull != edits || len(problems) == 0 != edits {
			t.Errorf("%s may have %s: %s", role, got, said(problems))
		}
	}
}
