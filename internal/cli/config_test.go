package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/git"
)

// The config.yaml that init writes is valid as it is, and also when every setting in it is taken out
// of its comment, which changes nothing but the examples.
func TestScaffoldConfig(t *testing.T) {
	template, err := scaffold.ReadFile("scaffold/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := fillConfig(template, `odd "name"`, []string{"make test", `echo "a: b" # c`})
	if err != nil {
		t.Fatal(err)
	}
	c, problems := config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: template}})
	if len(problems) > 0 || len(c.Verify) > 0 || c.Agents.Default != "" {
		t.Errorf("as it is: got %v, %+v, want the defaults", problems, c)
	}
	c, _ = config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: filled}})
	if c.Agents.Default != `odd "name"` || strings.Join(c.Verify, "|") != `make test|echo "a: b" # c` {
		t.Errorf("filled: got %q and %q", c.Agents.Default, c.Verify)
	}
	all := regexp.MustCompile(`(?m)^#(\S|  )`).ReplaceAll(template, []byte("$1"))
	got, problems := config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: all}})
	want, _ := config.Load(config.Files{})
	if len(problems) > 0 || got.Limits.Idle != want.Limits.Idle || got.Limits.Tokens != want.Limits.Tokens || got.Planning != want.Planning || got.VerifyTimeout != want.VerifyTimeout {
		t.Errorf("uncommented: got %v\n%+v\nwant\n%+v", problems, got, want)
	}
	if strings.Count(string(all), "\n#") > strings.Count(string(template), "\n# ") {
		t.Error("not every setting was taken out of its comment")
	}
}

// Settings that are there and can't be read are not taken for none: they may ask for a sandbox.
func TestConfigThatCannotBeRead(t *testing.T) {
	p := newProject(t.TempDir())
	if _, problems := p.Config(); len(problems) > 0 {
		t.Errorf("without settings: got %v, want none", problems)
	}
	if err := os.MkdirAll(filepath.Join(p.Root, ".trellis", "config.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, problems := p.Config()
	if len(problems) != 1 || problems[0].Warning || problems[0].File != ".trellis/config.yaml" || !strings.Contains(problems[0].Message, "is a folder") {
		t.Errorf("got %v, want that it is a folder", problems)
	}
}

// Edge S4: a watcher whose settings are replaced by what it can't read keeps those it has. The defaults in their place would
// have no check, no sandbox and no approval.
func TestReloadOfSettingsThatCanNotBeRead(t *testing.T) {
	p := newProject(t.TempDir())
	path := filepath.Join(p.Root, ".trellis", "config.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("verify: [make test]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	reload := settingsReloader(t.Context(), p, p.Settings.Files())
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", path); err != nil {
		t.Fatal(err)
	}
	if site, err := reload(); site != nil || err == nil || !strings.Contains(err.Error(), ".trellis/config.yaml") {
		t.Errorf("the settings became %v, %v", site, err)
	}
}

// newProject is a project that no repository is needed for.
func newProject(root string) *app.Project {
	return &app.Project{Env: (&command.Console{}).Caller(), Repo: &git.Repo{}, Root: root, Settings: app.Settings{Root: root}}
}
