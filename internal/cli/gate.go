package cli

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
)

// judge judges what came into a project by git. It is made once.
func (a *console) judge(p *project) (*trust.Judge, error) {
	if p.judge != nil {
		return p.judge, nil
	}
	f, unread := readUser(p.UserFile)
	if unread != nil {
		return nil, unread
	}
	user, problems := config.LoadUser(f)
	if len(problems) > 0 {
		return nil, &problems[0]
	}
	all, err := a.everything(p, user.Trust.Everything)
	if err != nil {
		return nil, err
	}
	if p.keys, err = a.trustedKeys(user.Trust.Keys); err != nil {
		return nil, err
	}
	p.judge = &trust.Judge{Repo: p.Repo, Ledger: &trust.Ledger{Path: a.stateFile("trust.jsonl"), Disk: a.Disk, Now: a.Now}, Branch: user.Trust.Branch, Everything: all}
	return p.judge, nil
}

// everything reports whether all that is checked out may run: for this process, or below these folders.
func (a *console) everything(p *project, folders []string) (bool, error) {
	switch said := a.Getenv("TRELLIS_TRUST"); said {
	case "":
	case "checkout":
		return true, nil
	default:
		return false, app.Usagef("TRELLIS_TRUST is %q: only `checkout` means something, which trusts all that is checked out", said)
	}
	return slices.ContainsFunc(folders, func(dir string) bool {
		real, err := filepath.EvalSymlinks(a.atHome(dir))
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(real, p.Root)
		return err == nil && filepath.IsLocal(rel)
	}), nil
}

// atHome is a path that may begin with ~/.
func (a *console) atHome(path string) string {
	if rest, home := strings.CutPrefix(path, "~/"); home {
		return filepath.Join(a.Getenv("HOME"), rest)
	}
	return path
}

// trustedKeys are the keys whose decisions count.
func (a *console) trustedKeys(files []string) (keys []ed25519.PublicKey, err error) {
	for _, file := range files {
		data, err := durable.Read(a.atHome(file), durable.MaxDocument)
		if err != nil {
			return nil, fmt.Errorf("reading trust.keys: %w", err)
		}
		key, err := proof.ParsePublicKey(data)
		if err != nil {
			return nil, fmt.Errorf("trust.keys: %s: %w", file, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// thisAccount is who decides here, for who counts people: not what they call themselves.
func thisAccount() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%d@%s", os.Getuid(), host)
}

// stateFile is a file that Trellis keeps for a person, outside of all checkouts; "" when nobody says where a home is.
func (a *console) stateFile(name string) string {
	dir := a.userDir("XDG_STATE_HOME", filepath.Join(".local", "state"))
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// inForce is the project with the settings that count for what runs: its own when they are trusted, else those that were
// trusted last. Without any the error is an *trust.UntrustedError. It stays with what was judged: another branch may be checked
// out at any moment.
func (a *console) inForce(ctx context.Context, p *project) (*project, error) {
	j, err := a.judge(p)
	if err != nil {
		return nil, err
	}
	files, unread := settingFiles(p.Root)
	q := *p
	q.Settings, q.judged = "", nil // another process may have found that they are trusted since
	v, err := a.settled(ctx, j, &q, files)
	if err != nil {
		return nil, err
	}
	kept, err := a.keptSettings(p)
	if err != nil {
		return nil, err
	}
	if v.Trusted() {
		if kept != "" && !j.Everything && (unread != nil || q.stayWith(files)) {
			a.keepJudged(p, kept, files, unread)
		}
		return &q, nil
	}
	if _, err := os.Stat(kept); kept == "" || err != nil || program(v) {
		return nil, v.Err()
	}
	if v, err = a.judgeKept(ctx, j, kept); err == nil {
		err = v.Err()
	}
	if err != nil {
		return nil, err
	}
	q.Settings, q.judged = kept, nil
	return &q, nil
}

// settled judges the settings of a project as they were read, and has it stay with them.
func (a *console) settled(ctx context.Context, j *trust.Judge, p *project, read map[string]string) (trust.Verdict, error) {
	files, problems := p.readSettings()
	s := subject.Settings()
	if len(problems) == 0 { // else they are told where they are used
		s.Texts = map[string][]byte{}
		for name, text := range read {
			s.Texts[name] = []byte(text)
		}
		s.Texts[files.Config.Name], s.Texts[files.Worktree.Name] = files.Config.Data, files.Worktree.Data
	}
	v, err := j.Subject(ctx, s)
	if err == nil && len(problems) == 0 {
		p.judged = &files
	}
	return v, err
}

// stayWith reports whether the settings that were judged are those of files that were read before.
func (p *project) stayWith(read map[string]string) bool {
	return p.judged != nil && string(p.judged.Config.Data) == read[p.judged.Config.Name] && string(p.judged.Worktree.Data) == read[p.judged.Worktree.Name]
}

// judgeKept judges the programs of the checkout that settings of before name: they are those that are checked out now.
func (a *console) judgeKept(ctx context.Context, j *trust.Judge, kept string) (trust.Verdict, error) {
	data, err := durable.ReadBelow(kept, ".trellis/config.yaml", durable.MaxDocument)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return trust.Verdict{}, err
	}
	return j.Subject(ctx, subject.Programs(data))
}

// keepJudged keeps settings that are trusted, if they are those that were judged. Where nothing can be kept they run all the
// same: only there are none of before when others are checked out, which is said once.
func (a *console) keepJudged(p *project, dir string, judged map[string]string, unread error) {
	now, err := settingFiles(p.Root)
	if err == nil && unread == nil && !maps.Equal(judged, now) {
		return // somebody is writing them: the next look keeps them
	}
	if err = cmp.Or(unread, err); err == nil {
		err = a.keepSettings(now, dir)
	}
	if err != nil {
		a.unkept.Do(func() { a.Say("%v: when other settings are checked out, these do not stay in force", err) })
	}
}

// owning has a command change a file of a task, and remembers what it wrote into it: that is a person's of this clone, whatever
// git does with it later. What else stands there, before or by the time that it is looked at, is judged when something would run.
func (a *console) owning(p *project, dir, name string, write func() (before, after []byte, err error)) error {
	before, after, err := write()
	if _, inside := proc.InsideRun(a.Env); err == nil && !inside {
		a.unowned(a.wrote(p, dir, name, before, after))
	}
	return err
}

// wrote remembers what a file of a task says after a command's change of it and did not say before.
func (a *console) wrote(p *project, dir, name string, before, after []byte) error {
	j, err := a.judge(p)
	if err != nil {
		return err
	}
	s, err := subject.Task(p.Root, p.Store.Rel(dir))
	if err != nil {
		return err
	}
	file := path.Join(filepath.ToSlash(p.Store.Rel(dir)), name)
	old, _ := s.Read(file, before)
	now, _ := s.Read(file, after)
	return j.Record(trust.Made, s.Name, slices.DeleteFunc(now, func(i trust.Item) bool {
		return slices.ContainsFunc(old, func(was trust.Item) bool { return was.ID() == i.ID() })
	})...)
}

// own remembers what files of a task say that a command has just made.
func (a *console) own(p *project, dir string, files []string) error {
	now, err := a.said(p, dir, files)
	if err != nil {
		return err
	}
	return p.judge.Record(trust.Made, filepath.Base(dir), now...)
}

// said is what files of a task say.
func (a *console) said(p *project, dir string, files []string) ([]trust.Item, error) {
	j, err := a.judge(p)
	if err != nil {
		return nil, err
	}
	s, err := subject.Task(p.Root, p.Store.Rel(dir))
	if err != nil {
		return nil, err
	}
	s.Files = nil
	for _, name := range files {
		s.Files = append(s.Files, path.Join(filepath.ToSlash(p.Store.Rel(dir)), name))
	}
	return j.Says(s)
}

// unowned tells why what a command wrote is not remembered as made here: git may tell so later.
func (a *console) unowned(err error) {
	if err != nil && !errors.Is(err, trust.ErrNowhere) {
		a.Say("%v", err)
	}
}

// program reports whether a file that would be run itself is foreign: settings that were trusted would run it as well.
func program(v trust.Verdict) bool {
	return slices.ContainsFunc(v.Foreign, func(f trust.Foreign) bool {
		return f.Item.Kind == trust.Program || f.Item.File == ".trellis/rehearsal.yaml"
	})
}

// trustedPrograms says why what the settings name can't be run now, nil when it can: other settings may be checked out, but
// not other programs.
func (a *console) trustedPrograms(p *project) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.inForce(ctx, p)
		return err
	}
}

// instruct says what the project tells a role: as it is now when that is trusted, else as it was trusted last. What was
// judged is not judged again as long as it stays.
func (a *console) instruct(ctx context.Context, home *project) func(trellis.Role) (dispatch.Instructions, error) {
	var mu sync.Mutex
	known := map[string]bool{}
	return func(role trellis.Role) (dispatch.Instructions, error) {
		words, err := wordsFor(home.settingsRoot(), role)
		if err != nil || home.judge == nil || home.Settings != "" {
			return words.instructions(role, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if known[fmt.Sprintf("%q", words)] {
			return words.instructions(role, nil)
		}
		v, err := home.judge.Subject(ctx, subject.Settings().Of(words))
		if err != nil || v.Trusted() {
			known[fmt.Sprintf("%q", words)] = err == nil
			return words.instructions(role, err)
		}
		words, err = a.wordsInForce(ctx, home, role, v)
		return words.instructions(role, err)
	}
}

// wordsInForce is what a role was told by the settings that were trusted last. Where those are checked out again by now, so that
// none of before are in force, who asked has to ask again.
func (a *console) wordsInForce(ctx context.Context, home *project, role trellis.Role, v trust.Verdict) (roleWords, error) {
	from, err := a.inForce(ctx, home)
	if err == nil && from.Settings == "" {
		err = v.Err()
	}
	if err != nil {
		return nil, err
	}
	return wordsFor(from.settingsRoot(), role)
}

// keptSettings is where the settings of a project that were trusted last are kept, "" when nothing can be.
func (a *console) keptSettings(p *project) (string, error) {
	dir := a.stateFile("settings")
	if dir == "" {
		return "", nil
	}
	clone, err := p.Repo.CloneID()
	return filepath.Join(dir, clone), err
}

// keepSettings keeps settings for the time when others are checked out.
func (a *console) keepSettings(now map[string]string, dir string) error {
	kept, err := settingFiles(dir)
	if err != nil {
		return err
	}
	for name := range kept {
		if _, stays := now[name]; !stays {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("keeping the settings: %w", err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ".trellis"), 0o700); err != nil {
		return fmt.Errorf("keeping the settings: %w", err)
	}
	for name, text := range now {
		if old, there := kept[name]; there && old == text {
			continue
		}
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = a.Disk.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			return fmt.Errorf("keeping the settings: %w", err)
		}
	}
	return nil
}

// forgetSettings has no settings of before come into force.
func (a *console) forgetSettings(p *project) error {
	kept, err := a.keptSettings(p)
	if err == nil && kept != "" {
		err = os.RemoveAll(kept)
	}
	if err != nil {
		return fmt.Errorf("forgetting the settings that were in force: %w", err)
	}
	return nil
}

// settingFiles are the files below root that say settings.
func settingFiles(root string) (map[string]string, error) {
	names := []string{".trellis/config.yaml", ".trellis/worktree.yaml", ".trellis/rehearsal.yaml"}
	for _, dir := range []string{".trellis/agents", ".trellis/templates"} {
		list, err := durable.ReadDirBelow(root, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range list {
			if e.Type().IsRegular() {
				names = append(names, dir+"/"+e.Name())
			}
		}
	}
	files := map[string]string{}
	for _, name := range names {
		data, err := durable.ReadBelow(root, name, durable.MaxDocument)
		switch {
		case err == nil:
			files[name] = string(data)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return files, nil
}

// sayBefore says that settings of before are in force.
func (a *console) sayBefore(ctx context.Context, p *project) {
	v, err := p.judge.Subject(ctx, subject.Settings())
	var untrusted *trust.UntrustedError
	if err == nil && errors.As(v.Err(), &untrusted) {
		a.Say("%v: those that were trusted last stay in force", untrusted)
		a.Say("next: %s", untrusted.Next())
	}
}

// trustedNow says why the settings that are checked out are not taken, nil when they are.
func (a *console) trustedNow(ctx context.Context, p *project) error {
	if _, err := a.inForce(ctx, p); err != nil {
		return withNext(err)
	}
	v, err := p.judge.Subject(ctx, subject.Settings())
	if err == nil {
		err = v.Err()
	}
	return withNext(err)
}

// withNext has an error say what to do about it where nobody prints hints.
func withNext(err error) error {
	var untrusted *trust.UntrustedError
	if errors.As(err, &untrusted) {
		return fmt.Errorf("%w; next: %s", err, untrusted.Next())
	}
	return err
}

// siteForOrders is the site of a command that runs nothing itself. Where no settings are trusted it has those that are
// there, without what they would have run.
func (a *console) siteForOrders(ctx context.Context, p *project) (*dispatch.Site, error) {
	q, err := a.inForce(ctx, p)
	if errors.Is(err, trust.ErrUntrusted) {
		return a.readingSite(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	return a.siteWith(ctx, q)
}

// readingSite is the site of a command that only reads. It judges nothing, and runs nothing that the settings say.
func (a *console) readingSite(ctx context.Context, p *project) (*dispatch.Site, error) {
	s, err := a.siteWith(ctx, p)
	if err == nil {
		s.Config.Hooks, s.Config.Notify = config.Hooks{}, nil
	}
	return s, err
}
