package config_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

func TestValues(t *testing.T) {
	list := config.Values(config.Files{
		Config:   config.File{Name: "config.yaml", Data: []byte("sandbox: auto\nverify:\n  - make test\nagents:\n  commands:\n    mine:\n      command: [bin/mine, -x]\nlimits:\n  idle: 90s\n")},
		Worktree: config.File{Name: "worktree.yaml", Data: []byte("post_create:\n  - make\n")},
	})
	var got []string
	for _, v := range list {
		got = append(got, fmt.Sprintf("%s=%s@%d", v.Key, v.Text, v.Line))
	}
	for _, want := range []string{
		"sandbox=auto@1", `verify=["make test"]@2`, "verify[1]=make test@3", "worktree.setup[1]=make@2", "limits.idle=1m30s@9", "limits.cost_usd=20@0",
		"planning.approval=none@0", `protected=[".trellis/**"]@0`, "delivery.reviewers=[]@0", "sandbox_hosts=with sandbox: auto agents have the whole network@0",
		`agents.commands.mine={"command":["bin/mine","-x"]}@6`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no %s in %q", want, got)
		}
	}
}
