package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
)

// Every command has a page with its flags, exit codes and examples, and trellis.1 names the commands.
func TestManualIsWhole(t *testing.T) {
	t.Parallel()
	pages := Manual("v0.0.0", "2026-02-01")
	if page := pages["trellis.1"]; !strings.Contains(page, `trellis\-plan(1)`) || strings.Contains(page, "__complete") {
		t.Errorf("trellis.1 is\n%s", page)
	}
	for name, c := range leaves(commands(new(command.Console)), "") {
		page := pages["trellis-"+strings.ReplaceAll(name, " ", "-")+".1"]
		for _, f := range c.Flags {
			if flag := strings.ReplaceAll(commandline.Dashed(f.Names()[0]), "-", `\-`); !strings.Contains(page, flag) {
				t.Errorf("the page of %s lacks %s", name, flag)
			}
		}
		if !strings.Contains(page, ".SH EXIT STATUS\n") || !strings.Contains(page, ".SH EXAMPLES\n") {
			t.Errorf("the page of %s is\n%s", name, page)
		}
		if _, _, codes := command.SplitManual(c.Description); told(codes, "130") != told(codes, "143") {
			t.Errorf("%s: Ctrl-C ends it and SIGTERM does not, or the other way round: %v", name, codes)
		}
	}
}

func told(codes [][2]string, code string) bool {
	return slices.ContainsFunc(codes, func(c [2]string) bool { return c[0] == code })
}

// man renders every page without a warning and without a line that a terminal of 80 columns would wrap, and mandoc, which Alpine and the
// BSDs have, finds no mistake.
func TestManualIsRendered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []string
	for name, page := range Manual("v0.0.0", "2026-02-01") {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	slices.Sort(files)
	for name, calls := range map[string][][]string{
		"groff":  {{"-man", "-Tutf8", "-ww", "-rLL=78n", "-P-cbou"}},
		"mandoc": {{"-Tlint", "-Wwarning"}, {"-Tutf8", "-Owidth=78"}},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			switch {
			case err != nil && os.Getenv("CI") != "":
				t.Fatalf("there is no %s on this machine: scripts/setup.sh installs it", name)
			case err != nil:
				t.Skipf("there is no %s on this machine: scripts/setup.sh installs it", name)
			}
			for _, args := range calls {
				render(t, slices.Concat([]string{path}, args, files)...)
			}
		})
	}
}

// render runs a command, which must not print errors or lines that are too long.
func render(t *testing.T, argv ...string) {
	t.Helper()
	plain := regexp.MustCompile(".\b") // bold and underlined characters, as typewriters made them
	cmd := exec.Command(argv[0], argv[1:]...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Errorf("%s: %v\n%s%s", argv[0], err, errs.String(), out)
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(plain.ReplaceAllString(line, "")) > 80 {
			t.Errorf("%s: a line has more than 80 columns: %s", argv[0], line)
		}
	}
}
