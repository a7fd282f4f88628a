package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Limits of what a person may say about a planning, in bytes. All except the requirement is part of the planning's record.
const (
	maxRequirement = taskdir.MaxRequirement
	maxConstraint  = 2 << 10
	maxBackground  = 8 << 10 // of one --context text
	maxRecorded    = 24 << 10
)

// How many constraints, and how many context files, may be given. A TaskSpec has room for maxConstraints constraints.
const (
	maxConstraints  = 12
	maxContextFiles = 20
)

// requirementFlags are the flags that give the requirement.
var requirementFlags = []string{"requirement", "requirement-file", "from-issue"}

// requirementSource returns the flag or argument ("-" or "TEXT") that holds the requirement, or "" if there is none.
func requirementSource(c *cli.Context) (string, error) {
	var given []string
	for _, name := range requirementFlags {
		if c.IsSet(name) {
			given = append(given, "--"+name)
		}
	}
	if text := c.Args().First(); c.NArg() > 0 {
		given = append(given, map[bool]string{true: "-", false: "TEXT"}[text == "-"])
	}
	switch len(given) {
	case 0:
		return "", nil
	case 1:
		return given[0], nil
	}
	last := len(given) - 1
	return "", app.Usagef("%s and %s exclude each other: a requirement comes from one place", strings.Join(given[:last], ", "), given[last])
}

// readRequirement returns the requirement, byte for byte, and the issue that it comes from, if any.
func readRequirement(a *command.Console, c *cli.Context, p *app.Project) (text string, from *tracker.Issue, err error) {
	flag, err := requirementSource(c)
	switch {
	case err != nil || flag == "":
		return "", nil, err
	case flag == "TEXT":
		text = c.Args().First()
	case flag == "-":
		text, err = readInput(a, "-", "requirement")
	case flag == "--requirement":
		text = c.String("requirement")
	case flag == "--requirement-file":
		text, err = readInput(a, c.String("requirement-file"), "requirement")
	default:
		if from, err = p.Issue(c.Context, c.String("from-issue")); err == nil {
			text = from.Requirement()
			sayIssue(a, from)
		}
	}
	if err != nil {
		return "", nil, err
	}
	return text, from, checkRequirement(flag, text)
}

func checkRequirement(flag, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return app.Usagef("%s: there is no requirement in it", flag)
	case len(text) > maxRequirement:
		return app.WithHints(app.Usagef("%s: the requirement is %d bytes long, at most %d are taken", flag, len(text), maxRequirement), "put what matters into a file, and: --requirement-file FILE")
	}
	return app.CheckText(flag, text)
}

// sayIssue prints what the text made of an issue does not show: a state other than open, and how many comments are hidden.
func sayIssue(a *command.Console, i *tracker.Issue) {
	if i.State != "" && !strings.EqualFold(i.State, "open") {
		command.Note(a, "issue %s is %s", i.Name, trellis.VisibleLine(strings.ToLower(i.State)))
	}
	if i.Hidden > 0 {
		command.Note(a, "issue %s: comments that were hidden there are left out: %d", i.Name, i.Hidden)
	}
}

// fillFromIssue fills in a new task from its issue: source, priority and type unless they are set, and the tasks that it depends on.
func fillFromIssue(a *command.Console, c *cli.Context, p *app.Project, n *taskdir.New, i *tracker.Issue) error {
	n.Source = taskdir.Source{Issue: i.Ref.String(), URL: i.URL, Comment: c.Bool("comment")}
	if said := i.Priority(); said != "" && n.Priority == "" {
		n.Priority = said
		command.Note(a, "priority %s, as the issue says", said)
	}
	if said := i.DevType(); said != "" && n.DevType == "" {
		n.DevType = said
		command.Note(a, "type %s, as the issue's labels say", said)
	}
	tasks, others, err := app.Blockers(p.Store, i)
	if err != nil {
		return err
	}
	for _, id := range tasks {
		if !slices.Contains(n.DependsOn, id) {
			n.DependsOn = append(n.DependsOn, id)
			command.Note(a, "depends on %s, which blocks the issue", id)
		}
	}
	if len(others) > 0 {
		command.Note(a, "the issue is blocked by %s, which no task here came from: nothing waits for that", strings.Join(others, ", "))
	}
	return nil
}

// readInput reads a file, or standard input if name is "-". called is the word for its content in messages.
func readInput(a *command.Console, name, called string) (string, error) {
	if name == "-" {
		if command.IsTerminal(a.Stdin) {
			a.Say("the %s is read from the terminal, up to Ctrl-D", called)
		}
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxRequirement+1))
		if err != nil {
			return "", app.AsKind(app.ErrUsage, fmt.Errorf("reading standard input: %w", err))
		}
		return string(data), nil
	}
	data, err := os.ReadFile(a.Path(name))
	if err != nil {
		return "", app.AsKind(app.ErrUsage, err)
	}
	return string(data), nil
}

// readRemarks reads what a person says besides the requirement into o: feedback, constraints and context.
func readRemarks(a *command.Console, c *cli.Context, p *app.Project, o *runner.PlanOptions) (err error) {
	o.Feedback = c.String("feedback")
	if err := app.CheckFeedback("--feedback", o.Feedback); err != nil {
		return err
	}
	paths, texts := splitContexts(a, c.StringSlice("context"))
	o.Background, o.Constraints = texts, c.StringSlice("constraint")
	if n := len(o.Constraints); n > maxConstraints {
		return app.Usagef("--constraint is given %d times, at most %d are taken", n, maxConstraints)
	}
	if err := checkTexts("--constraint", o.Constraints, maxConstraint, ""); err != nil {
		return err
	}
	if err := checkTexts("--context", texts, maxBackground, ": put it into a file of the repository"); err != nil {
		return err
	}
	if o.Context, err = contextPaths(a, p, paths); err != nil {
		return err
	}
	recorded, err := json.Marshal([]any{o.Feedback, o.Constraints, o.Background, o.Context, o.Verify})
	if err == nil && len(recorded) > maxRecorded {
		err = app.Usagef("--feedback, --constraint, --context and --verify take %d bytes together as they are recorded, at most %d may be: put what is long into the requirement", len(recorded), maxRecorded)
	}
	return err
}

// splitContexts splits the values of --context into paths and texts: a text has several words, and no file has that name.
func splitContexts(a *command.Console, list []string) (paths, texts []string) {
	for _, s := range list {
		_, err := os.Lstat(a.Path(s))
		if words := strings.Fields(s); len(words) < 2 || err == nil {
			paths = append(paths, s)
			continue
		}
		command.Note(a, "--context %.40q is taken as a text: no file is called so", s)
		texts = append(texts, s)
	}
	return paths, texts
}

// checkTexts returns a usage error if one of the values of a repeatable flag is longer than most
// bytes or not text. The error of a value that is too long ends with instead.
func checkTexts(flag string, list []string, most int, instead string) error {
	for _, text := range list {
		if len(text) > most {
			return app.Usagef("%s %.40q… is %d bytes long, at most %d are taken%s", flag, text, len(text), most, instead)
		}
		if err := app.CheckText(flag, text); err != nil {
			return err
		}
	}
	return nil
}

// contextPaths returns the files and folders that a person names, relative to the top of the
// repository, folders with a / at their end. Each has to be allowed in a context file.
func contextPaths(a *command.Console, p *app.Project, list []string) (paths []string, err error) {
	if len(list) > maxContextFiles {
		return nil, app.Usagef("--context is given %d times, at most %d are taken", len(list), maxContextFiles)
	}
	var rows []contextfiles.Row
	for _, name := range list {
		row := contextfiles.Row{Type: contextfiles.File}
		if row.Path, err = pathFromTop(a, p, name); err != nil {
			return nil, err
		}
		if st, err := os.Stat(filepath.Join(p.Root, row.Path)); err == nil && st.IsDir() {
			row.Type = contextfiles.Directory
		}
		if !slices.ContainsFunc(rows, func(r contextfiles.Row) bool { return r.Path == row.Path }) {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	valid, problems := contextfiles.Checker{Root: p.Root}.Check("--context", rows)
	for _, problem := range problems {
		if !problem.Warning {
			return nil, app.Usagef("--context: %s", problem.Message)
		}
		command.Note(a, "warning: --context: %s", problem.Message)
	}
	for _, r := range valid {
		paths = append(paths, r.Path)
	}
	return paths, nil
}

// pathFromTop returns a path relative to the top of the repository. A path in a linked worktree stands
// for the same file of the main checkout, which planning reads.
func pathFromTop(a *command.Console, p *app.Project, name string) (string, error) {
	if name == "" {
		return "", app.Usagef("a --context is blank")
	}
	path := a.Path(name)
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil { // a symlink at the end is checked later
		path = filepath.Join(real, filepath.Base(path))
	}
	for _, root := range []string{worktreeTop(p, path), p.Root} {
		if rel, err := filepath.Rel(root, path); root != "" && err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), nil
		}
	}
	return "", app.Usagef("--context %s is outside the repository %s", name, p.Root)
}

// worktreeTop returns the top of the linked worktree that path lies in, or "" if there is none.
func worktreeTop(p *app.Project, path string) string {
	dir := filepath.Dir(path)
	if repo, err := git.Open(dir); err != nil || repo.Main != p.Root {
		return ""
	}
	for ; dir != p.Root && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}
	return ""
}
