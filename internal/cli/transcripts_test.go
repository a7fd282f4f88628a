package cli

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Every command of README.md, docs/start and docs/guides is run as it is written, and prints what the page shows, except for dates,
// hashes and times. A line before each block of commands says where it is run:
//
//	<!-- typed: SCENE -->         in this scene, with what earlier blocks of the scene left
//	<!-- not typed: REASON -->    never
//
// A line … in a transcript stands for any lines. TRELLIS_UPDATE_DOCS=1 writes the actual output.
func TestReadmeTranscripts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the transcripts are those of Linux")
	}
	typed := 0
	for _, page := range typedPages(t) {
		t.Run(path.Base(page), func(t *testing.T) { typed += typePage(t, page) })
	}
	if typed < 30 && !strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		t.Errorf("only %d commands were typed", typed)
	}
}

// typedPages returns the pages whose commands are run.
func typedPages(t *testing.T) []string {
	list := []string{"README.md"}
	for page := range pages(t) {
		if strings.HasPrefix(page, "docs/start/") || strings.HasPrefix(page, "docs/guides/") {
			list = append(list, page)
		}
	}
	slices.Sort(list)
	return list
}

// typePage runs the commands of a page, and compares their output.
func typePage(t *testing.T, page string) (typed int) {
	file := filepath.Join(repository(t), page)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	for _, b := range slices.Backward(replay(t, page, lines)) { // from the end: a replaced block moves only the lines after it
		typed += b.commands
		if b.want != nil && !matches(mask(b.want), mask(b.got)) {
			t.Errorf("%s:%d: in the scene %s this is printed:\n%s", page, b.at+1, b.scene, strings.Join(b.got, "\n"))
			lines = slices.Replace(lines, b.at, b.at+len(b.want), b.got...)
		}
	}
	if os.Getenv("TRELLIS_UPDATE_DOCS") != "" {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return typed
}

// typed is a block of the page that was run.
type typed struct {
	scene     string
	at        int // index of the line of want[0]
	want, got []string
	commands  int
}

// replay runs the blocks of a page in order. Those without a transcript have to succeed.
func replay(t *testing.T, page string, lines []string) (list []typed) {
	rooms := map[string]*room{}
	marker := regexp.MustCompile(`^<!-- (typed|not typed): (.*) -->$`)
	for at := 0; at < len(lines); at++ {
		if !strings.HasPrefix(lines[at], "```") {
			continue
		}
		end := at + 1 + slices.Index(lines[at+1:], "```")
		block, m := lines[at+1:end], marker.FindStringSubmatch(lines[at-1])
		switch {
		case lines[at] != "```": // in some language
		case m == nil:
			t.Errorf("%s:%d: nothing says where this is typed", page, at+1)
		case m[1] == "typed":
			list = append(list, enter(t, page, m[2], rooms).typeIn(block, at+1))
		}
		at = end
	}
	return list
}

// room is where the commands of a scene are run: a folder with a home.
type room struct {
	*testing.T
	page, scene string
	root, cwd   string
	env         []string
	began       time.Time // names of tasks contain the day, which may change during the test
}

// enter prepares the folder of a scene when it is used for the first time. "a/b" is b in the folder of a.
func enter(t *testing.T, page, name string, rooms map[string]*room) *room {
	t.Helper()
	folder, _, _ := strings.Cut(name, "/")
	r, ok := rooms[folder]
	if !ok {
		root := t.TempDir()
		home := filepath.Join(root, "home", "ada")
		r = &room{T: t, page: page, scene: folder, began: time.Now(), root: root, cwd: filepath.Join(home, "greet"), env: []string{
			"HOME=" + home, "TMPDIR=" + root, "PATH=" + filepath.Join(home, "bin") + ":" + filepath.Join(root, "bin"),
			"TZ=UTC", "LC_ALL=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1", "GORACE=atexit_sleep_ms=0", "GOGC=" + os.Getenv("GOGC")}}
		rooms[folder] = r
		r.furnish()
		t.Cleanup(r.leave)
		r.prepare(folder)
	}
	if name != folder {
		r.prepare(name)
	}
	return r
}

// furnish copies the demo's repository and links the programs. The demo's .trellis is put aside, for the scenes.
func (r *room) furnish() {
	r.Helper()
	for _, dir := range []string{"bin", "home/ada/bin"} {
		if err := os.MkdirAll(filepath.Join(r.root, dir), 0o755); err != nil {
			r.Fatal(err)
		}
	}
	for _, name := range []string{"bash", "cat", "chmod", "cp", "date", "env", "git", "grep", "ln", "mkdir", "mv", "readlink", "rm", "sed", "sh", "sleep", "sort", "tee", "test", "touch", "tr", "trellis", "wc"} {
		path, err := exec.LookPath(name)
		if name == "trellis" { // as it is built for people
			path, err = built()
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(r.root, "bin", name))
		}
		if err != nil {
			r.Fatal(err)
		}
	}
	files, err := fs.Sub(demoFiles, "demo")
	if err == nil {
		err = os.CopyFS(r.cwd, files)
	}
	if err == nil {
		err = os.Rename(filepath.Join(r.cwd, ".trellis"), filepath.Join(r.root, "trellis"))
	}
	if err != nil {
		r.Fatal(err)
	}
}

// prepare runs the preparations of a scene.
func (r *room) prepare(scene string) {
	r.Helper()
	script, ok := scenes[scene]
	if !ok {
		r.Fatalf("there is no scene %s", scene)
	}
	if out, err := r.shell("set -e\n" + script); err != nil {
		r.Fatalf("preparing the scene %s: %v\n%s", scene, err, out)
	}
}

// leave ends the processes that the scene began, by their ids.
func (r *room) leave() {
	pids, err := filepath.Glob(filepath.Join(r.root, "*.pid"))
	if err != nil {
		r.Error(err)
	}
	for _, file := range pids {
		if out, err := r.shell("kill -TERM $(cat " + file + ")"); err != nil {
			r.Errorf("%v: %s", err, out)
		}
		for held := true; held; { // wait until it has ended, so that the folder can be removed
			_, err := os.Stat(filepath.Join(r.cwd, ".trellis", ".runtime", "watch.json"))
			if held = err == nil; held {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// typeIn runs the commands of a block that begins at line at of the page.
func (r *room) typeIn(block []string, at int) typed {
	r.Helper()
	b := typed{scene: r.scene, at: at}
	if slices.Equal(block, []string{"trellis watch"}) {
		block = []string{watchBriefly}
	}
	if !slices.ContainsFunc(block, func(line string) bool { return strings.HasPrefix(line, "$ ") }) {
		b.commands = len(block)
		if out, err := r.shell("set -e\n" + strings.Join(block, "\n")); err != nil {
			r.Errorf("%s:%d: %v\n%s", r.page, at, err, out)
		}
		return b
	}
	b.want = block
	for _, line := range block {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			b.commands++
			out := r.typeOne(command)
			b.got = append(append(b.got, line), strings.Split(strings.TrimSuffix(out, "\n"), "\n")...)
			if out == "" {
				b.got = b.got[:len(b.got)-1]
			}
		}
	}
	return b
}

// watchBriefly is trellis watch, ended once it watches. SIGTERM stands for Ctrl-C, since a shell without a terminal has background
// programs ignore SIGINT.
const watchBriefly = "trellis watch & pid=$!; until test -s .trellis/.runtime/watch.json; do kill -0 $pid; sleep 0.01; done; kill -TERM $pid; wait $pid || test $? = 130 -o $? = 143"

// typeOne returns the output of a command in a transcript.
func (r *room) typeOne(command string) string {
	out, err := r.shell(command)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.Errorf("%s: %v", command, err)
	}
	real, err := filepath.EvalSymlinks(r.root)
	if err != nil {
		r.Error(err)
	}
	as := []string{real + "/home", "/home", r.root + "/home", "/home", real + "/bin/", "/usr/bin/"}
	for _, day := range []time.Time{r.began, time.Now()} {
		as = append(as, day.Format("01-02-"), "11-20-", "archive/"+day.Format("2006-01"), "archive/2026-11")
	}
	return strings.NewReplacer(as...).Replace(out)
}

// shell runs lines in the folder in which the lines before them ended.
func (r *room) shell(lines string) (string, error) {
	where := filepath.Join(r.root, "cwd")
	cmd := exec.Command("bash", "-c", lines+"\ncode=$?; pwd > "+where+"; exit $code")
	cmd.Dir, cmd.Env = r.cwd, append(slices.Clone(r.env), "ROOT="+r.root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := os.CreateTemp(r.root, "said-*") // not a pipe, which a watcher in the background would keep open
	if err != nil {
		return "", err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	said, rerr := os.ReadFile(out.Name())
	if now, werr := os.ReadFile(where); werr == nil {
		r.cwd = strings.TrimSpace(string(now))
	}
	return string(said), errors.Join(err, rerr)
}

// masks hide what differs from run to run.
var masks = []struct {
	of *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b|\b[0-9a-f]{7}\b`), "HASH"},
	{regexp.MustCompile(`\b\d\d-\d\d-([a-z])`), "MM-DD-$1"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m|h|d)\b( ago)?`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? [KMG]?B\b`), "SIZE"},
	{regexp.MustCompile(`process \d+ on \S+,`), "process N on HOST,"},
	{regexp.MustCompile(`\b(v0\.0\.0-\S+|devel),`), "VERSION,"},
	{regexp.MustCompile(`(git +)\d+\.\d+\.\d+`), "${1}VERSION"},
	{regexp.MustCompile(`linux/\w+`), "linux/ARCH"},
	{regexp.MustCompile(`^(ok +processes) .*`), "$1 THE MACHINE'S WAY"},
	{regexp.MustCompile(`\S*/bash: line`), "bash: line"},
	{regexp.MustCompile(` +`), " "},
}

func mask(lines []string) []string {
	list := make([]string, len(lines))
	for i, line := range lines {
		for _, m := range masks {
			line = m.of.ReplaceAllString(line, m.as)
		}
		list[i] = strings.TrimRight(line, " ")
	}
	for i := range list { // agents that are asked in parallel answer in any order
		for at := i; at > 0 && together.MatchString(list[at]) && together.MatchString(list[at-1]) && list[at] < list[at-1]; at-- {
			list[at], list[at-1] = list[at-1], list[at]
		}
	}
	return list
}

// together matches the lines of two calls that a planning makes in parallel.
var together = regexp.MustCompile(`: (taskspec|research)( done in TIME)?$`)

// matches compares output with a transcript, in which a line … stands for any lines.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] != "…" {
		return len(got) > 0 && want[0] == got[0] && matches(want[1:], got[1:])
	}
	for n := range len(got) + 1 {
		if matches(want[1:], got[n:]) {
			return true
		}
	}
	return false
}

// identity tells git who commits, begun is a repository with a commit, and playing one in which the demo's script plays the agent.
const (
	identity = "git config --global init.defaultBranch main; git config --global user.name Ada; git config --global user.email ada@example.org\n"
	begun    = identity + "git init -q; git add -A; git commit -q -m first\n"
	playing  = begun + "mkdir .trellis; cp $ROOT/trellis/rehearsal.yaml .trellis/; trellis init --agent rehearsal >/dev/null; git add -A; git commit -q -m 'Set up Trellis'\n"
)

// taskLine returns shell lines that create a task with this name and task.json.
func taskLine(name, json string) string {
	return fmt.Sprintf(`d=.trellis/tasks/11-20-%s; mkdir -p $d; echo '{"file": "greet.sh", "reason": "the program"}' | tee $d/implement.jsonl $d/debug.jsonl > $d/check.jsonl
printf '# %s\n\n## Acceptance Criteria\n\n- [ ] it is there\n' > $d/prd.md; echo '%s' > $d/task.json`+"\n", name, name, json)
}

// farewell plays the agent of the task that the page writes by hand.
const farewell = `cat > .trellis/rehearsal.yaml <<'END'
roles:
  implement: [{files: {farewell.sh: "echo \"Goodbye, $1!\"\n"}, answer: Made farewell.sh.}]
  check: [{answer: Nothing to mend.}]
END
`

// mended plays an agent that makes greet.sh use all words as the name.
const mended = `cat > .trellis/rehearsal.yaml <<'END'
roles:
  implement: [{files: {greet.sh: "#!/bin/sh\n# greet NAME says hello.\nname=\"$*\"\necho \"Hello, ${name:-world}!\"\n"}, answer: All words are the name now.}]
  check: [{answer: "Nothing to mend.\nALL_CHECKS_FINISH"}]
END
`

// scenes are the commands that prepare each scene.
var scenes = map[string]string{
	"demo": playing + "trellis plan -n shout -t backend -r 'greet.sh takes --shout' >/dev/null 2>&1\n",
	"first": begun + "mv ../greet ../your-project; cd ..; mkdir your-project/.trellis; cp $ROOT/trellis/rehearsal.yaml your-project/.trellis/\n" +
		"git -C your-project add -A; git -C your-project commit -q -m script\n",
	"first/script":  "cp $ROOT/trellis/config.yaml .trellis/; git commit -q -am agent\n",
	"first/merging": "cd ~/your-project\n",
	"unsigned": begun + `printf '#!/bin/sh\ncase $1 in --version) echo "2.1.0 (Claude Code)";; *) echo "{\\"loggedIn\\": false}"; exit 1;; esac\n' > ~/bin/claude; chmod +x ~/bin/claude
trellis init >/dev/null 2>&1; echo 'verify: [sh test.sh]' > .trellis/config.yaml; git add -A; git commit -q -m 'Set up Trellis'
`,
	"byhand":   playing + farewell + "git commit -q -am script\n",
	"newcomer": begun,
	"tutorial": begun + "mkdir .trellis; cp $ROOT/trellis/rehearsal.yaml .trellis/\n",
	"review":   playing,
	"ci":       playing,
	"install":  begun,
	"team":     begun,
	"monorepo": begun + "mkdir -p packages/web packages/api .trellis; cp $ROOT/trellis/rehearsal.yaml .trellis/; echo '{\"private\": true}' > package.json; echo \"lockfileVersion: '9.0'\" > pnpm-lock.yaml\n" +
		"printf 'packages:\\n  - packages/*\\n' > pnpm-workspace.yaml; echo '{\"name\": \"web\", \"scripts\": {\"test\": \"node --test\"}}' > packages/web/package.json; echo '{\"name\": \"api\"}' > packages/api/package.json\n" +
		"git add -A; git commit -q -m packages\n",
	"bug": playing + mended + "git commit -q -am script\n" + taskLine("names", `{"status": "ready"}`) +
		"printf '# Greet by the whole name\\n\\ngreet.sh Ada Lovelace prints \"Hello, Ada!\".\\n\\n## Acceptance Criteria\\n\\n- [ ] all words are the name\\n  verify: `test \"$(sh greet.sh Ada Lovelace)\" = \"Hello, Ada Lovelace!\"`\\n' > .trellis/tasks/11-20-names/prd.md\n",
	"broken":      playing + taskLine("broken", `{"status": ready}`),
	"nowhere":     "mkdir ~/none; cd ~/none\n",
	"uncommitted": identity + "git init -q; mkdir .trellis\n",
	"unset":       begun,
	"unequipped":  begun + "trellis init >/dev/null 2>&1; git add -A; git commit -q -m 'Set up Trellis'\n",
	"unknown":     playing + "git config --global --unset user.name; git config --global --unset user.email; git config --global user.useConfigOnly true\n",
	"bare":        playing + "sed -i 's/^verify:.*/verify: [vendor\\/lint]/' .trellis/config.yaml; git commit -q -am lint\n" + taskLine("deps", `{"status": "ready"}`),
	"unc":         playing + "echo x > notes.txt\n" + taskLine("unc", `{"status": "ready"}`) + `echo '{"file": "notes.txt", "reason": "what was said"}' >> .trellis/tasks/11-20-unc/implement.jsonl` + "\n",
	"idle": playing + farewell + "git commit -q -am script\n" + taskLine("farewell", `{"status": "ready", "title": "Say goodbye", "pipeline": {"verify": ["test -e farewell.sh"]}}`) +
		`printf '# Say goodbye\n\n## Acceptance Criteria\n\n- [ ] it is there\n  verify: ` + "`test -e farewell.sh`" + `\n' > .trellis/tasks/11-20-farewell/prd.md` +
		"\ntrellis start farewell >/dev/null 2>&1\n" + taskLine("one", `{"status": "ready"}`) + taskLine("two", `{"status": "ready", "pipeline": {"depends_on": ["11-20-one"]}}`),
	"second": playing + "trellis watch >/dev/null 2>&1 & echo $! > $ROOT/watch.pid; until test -s .trellis/.runtime/watch.json; do sleep 0.01; done\n",
}
