package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

func TestKeys(t *testing.T) {
	for name, want := range map[string]string{
		"limits.parallel":                   "limits|parallel: a whole number",
		"verify":                            "verify: list of texts",
		"agents.roles.judge.model":          "agents|roles|judge|model: text",
		"agents.apis.gpt-4.1.model":         "agents|apis|gpt-4.1|model: text",
		"agents.commands.mine.env.A.B":      "agents|commands|mine|env|A.B: text",
		"limits.per_agent.gpt-4.1":          "limits|per_agent|gpt-4.1: a whole number",
		"limits":                            "limits is a group of settings: limits.parallel, limits.per_agent, limits.rounds, …",
		"agents.commands.mine":              "agents.commands.mine is a group of settings",
		"notify":                            "notify is a list of groups of settings, which is written by hand",
		"notify.kind":                       "notify.kind is not a setting: notify is a list of groups of settings, which is written by hand",
		"notify[].kind":                     "notify[].kind is not a setting: notify is a list of groups of settings, which is written by hand",
		"notify[1].kind":                    "notify[1].kind is not a setting: notify is a list of groups of settings, which is written by hand",
		"notify.0.nonsense":                 "notify.0.nonsense is not a setting: notify is a list of groups of settings, which is written by hand",
		"webhook":                           "webhook is not a setting (did you mean notify[].webhook? notify is a list of groups of settings, which is written by hand)",
		"notifi.kind":                       "notifi.kind is not a setting (did you mean notify.kind? notify is a list of groups of settings, which is written by hand)",
		"parallel":                          "parallel is not a setting (did you mean limits.parallel?)",
		"limit.parallel":                    "limit.parallel is not a setting (did you mean limits.parallel?)",
		"agents.commands.mine.comand":       "agents.commands.mine.comand is not a setting (did you mean agents.commands.mine.command?)",
		"limits.parallel.":                  "limits.parallel. is not a setting (did you mean limits.parallel?)",
		"verify.1":                          "verify.1 is not a setting (did you mean verify?)",
		"":                                  " is a group of settings",
		"something.that.nobody.would.write": "something.that.nobody.would.write is not a setting",
	} {
		k, err := config.ScopeProject.Key(name)
		got := strings.Join(k.Path, "|") + ": " + k.Kind
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if k, err := config.ScopeUser.Key("trust.keys"); err != nil || !k.List {
		t.Errorf("a person's key: %v, %v", k, err)
	}
	if _, err := config.ScopeUser.Key("verify"); err == nil {
		t.Error("a person's file has no verify")
	}
}

// Each key of the table that is not below a list is found with its type, and the list of settings shows it.
func TestEveryKeyOfTheTable(t *testing.T) {
	var shown []string
	for _, s := range config.Settings(config.Files{}) {
		shown = append(shown, s.Key)
	}
	for _, r := range config.Table() {
		if strings.Contains(r.Key, "[]") {
			continue
		}
		k, err := config.ScopeProject.Key(strings.NewReplacer("<role>", "judge", "<name>", "mine", "<variable>", "A").Replace(r.Key))
		group := err != nil && strings.HasSuffix(err.Error(), "group of settings") && strings.Contains(r.Type, " for each ")
		if !group && (err != nil || k.Kind != r.Type) {
			t.Errorf("%s: %v, %q instead of %q", r.Key, err, k.Kind, r.Type)
		}
		if !strings.Contains(r.Key, "<") && !group && !slices.Contains(shown, r.Key) {
			t.Errorf("the list does not show %s", r.Key)
		}
	}
}

// The name of an existing file is accepted in protected, even if it is not a valid glob.
func TestSettingsThatNameAFile(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "[id.ts"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	files := config.Files{Root: root, Config: config.File{Name: "config.yaml", Data: []byte("protected: ['[id.ts']\n")}}
	if _, problems := config.Load(files); len(problems) > 0 {
		t.Errorf("got %v, want no problem", problems)
	}
	for _, s := range config.Settings(files) {
		if s.Key == "protected" && (s.Text() != "[id.ts" || s.Wrong != nil) {
			t.Errorf("protected: got %q, wrong: %v", s.Text(), s.Wrong)
		}
	}
}

func TestWhereSettingsComeFrom(t *testing.T) {
	list := config.Settings(config.Files{
		Config:   config.File{Name: "config.yaml", Data: []byte("limits:\n  parallel: 4\n  idle: 1m\nsandbox: require\nnotify:\n- on: [failed]\n  webhook: https://example.org\n")},
		Worktree: config.File{Name: "worktree.yaml", Data: []byte("verify: [make]\n")},
		User:     config.File{Name: "user.yaml", Data: []byte("sandbox: auto\napproval: plan\nlimits:\n  idle: 5m\n  parallel: 2\n  per_agent: {claude: 1}\n")},
	})
	got := map[string]string{}
	for _, s := range list {
		got[s.Key] = fmt.Sprintf("%s %s %s:%d", s.Inline(), s.Source, s.File, s.Line)
	}
	for key, want := range map[string]string{
		"limits.parallel": "2 user user.yaml:5", "limits.idle": "1m project config.yaml:3", "sandbox": "require project config.yaml:4",
		"planning.approval": "plan user user.yaml:2", "limits.per_agent.claude": "1 user user.yaml:6", "limits.rounds": "5 default :0",
		"verify": `["make"] project worktree.yaml:1`, "notify[1].webhook": "https://example.org project config.yaml:7", "sandbox_hosts": "null default :0",
		"worktree.dir": "../<repo>-worktrees default :0",
	} {
		if got[key] != want {
			t.Errorf("%s: got %q, want %q", key, got[key], want)
		}
	}
}
