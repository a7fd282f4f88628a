package app

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/taskdir"
)

// TrustGate decides what may run of the files that came into a project by git, and records what was made here.
type TrustGate struct {
	env   *Env
	repo  *git.Repo
	store taskdir.Store

	mu           sync.Mutex          // held while the judge is created
	judge        *trust.Judge        // see Judge
	keys         []ed25519.PublicKey // the keys of trust.keys, once the judge exists
	storeWarning sync.Once           // for printing once that settings can't be stored
}

// existingJudge returns the judge if Judge has created one, else nil.
func (g *TrustGate) existingJudge() *trust.Judge {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.judge
}

// Judge returns the judge of what came into a project by git. The first call creates it.
func (g *TrustGate) Judge() (*trust.Judge, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.judge != nil {
		return g.judge, nil
	}
	f, unread := readUser(g.env.UserFile())
	if unread != nil {
		return nil, unread
	}
	user, problems := config.LoadUser(f)
	if len(problems) > 0 {
		return nil, &problems[0]
	}
	all, err := g.trustsEverything(user.Trust.Everything)
	if err != nil {
		return nil, err
	}
	if g.keys, err = g.trustedKeys(user.Trust.Keys); err != nil {
		return nil, err
	}
	g.judge = &trust.Judge{Repo: g.repo, Ledger: &trust.Ledger{Path: g.env.stateFile("trust.jsonl"), Disk: g.env.Disk, Now: g.env.Now}, Branch: user.Trust.Branch, Everything: all}
	return g.judge, nil
}

// trustsEverything reports whether all that is checked out may run: for this process, or below one of these folders.
func (g *TrustGate) trustsEverything(folders []string) (bool, error) {
	switch value := g.env.Get("TRELLIS_TRUST"); value {
	case "":
	case "checkout":
		return true, nil
	default:
		return false, Usagef("TRELLIS_TRUST is %q: only `checkout` means something, which trusts all that is checked out", value)
	}
	return slices.ContainsFunc(folders, func(dir string) bool {
		real, err := filepath.EvalSymlinks(g.env.expandHome(dir))
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(real, g.store.Root)
		return err == nil && filepath.IsLocal(rel)
	}), nil
}

// trustedKeys reads the public keys whose decisions count.
func (g *TrustGate) trustedKeys(files []string) (keys []ed25519.PublicKey, err error) {
	for _, file := range files {
		data, err := durable.Read(g.env.expandHome(file), durable.MaxDocument)
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

// thisAccount identifies the account that decides here, for counting people independently of the names they give.
func thisAccount() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%d@%s", os.Getuid(), host)
}

// InForce returns the project with the settings that apply to what runs: its own if they are trusted, otherwise those that were
// trusted last. If there are none, the error is a *trust.UntrustedError. The result keeps the judged settings, as another
// branch may be checked out at any moment.
func (p *Project) InForce(ctx context.Context) (*Project, error) {
	j, err := p.Gate.Judge()
	if err != nil {
		return nil, err
	}
	files, unread := settingFiles(p.Root)
	q := *p
	q.Settings.Kept, q.Settings.judged = "", nil // another process may have trusted them since
	v, err := q.judgeSettings(ctx, j, files)
	if err != nil {
		return nil, err
	}
	kept, err := p.Gate.trustedSettingsDir()
	if err != nil {
		return nil, err
	}
	if v.Trusted() {
		if kept != "" && !j.Everything && (unread != nil || q.Settings.judgedMatch(files)) && len(missingSettings(p.Repo, q.Settings.Files())) == 0 {
			p.Gate.storeJudged(kept, files, unread)
		}
		return &q, nil
	}
	if _, err := os.Stat(kept); kept == "" || err != nil || hasUntrustedProgram(v) {
		return nil, v.Err()
	}
	if v, err = judgeKept(ctx, j, kept); err == nil {
		err = v.Err()
	}
	if err != nil {
		return nil, err
	}
	q.Settings.Kept, q.Settings.judged = kept, nil
	return &q, nil
}

// judgeSettings judges the settings of a project as they were read, and makes p keep the judged ones.
func (p *Project) judgeSettings(ctx context.Context, j *trust.Judge, read map[string]string) (trust.Verdict, error) {
	files, problems := p.Settings.Read()
	s := subject.Settings()
	if len(problems) == 0 { // otherwise they are reported where the settings are used
		s.Texts = map[string][]byte{}
		for name, text := range read {
			s.Texts[name] = []byte(text)
		}
		s.Texts[files.Config.Name], s.Texts[files.Worktree.Name] = files.Config.Data, files.Worktree.Data
	}
	v, err := j.Subject(ctx, s)
	if err == nil && len(problems) == 0 {
		p.Settings.judged = &files
	}
	return v, err
}

// judgeKept judges the programs of the checkout that earlier settings name, in the versions that are checked out now.
func judgeKept(ctx context.Context, j *trust.Judge, kept string) (trust.Verdict, error) {
	data, err := durable.ReadBelow(kept, ".trellis/config.yaml", durable.MaxDocument)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return trust.Verdict{}, err
	}
	return j.Subject(ctx, subject.Programs(data))
}

// hasUntrustedProgram reports whether an untrusted file would itself be executed: earlier, trusted settings would execute it as well.
func hasUntrustedProgram(v trust.Verdict) bool {
	return slices.ContainsFunc(v.Foreign, func(f trust.Foreign) bool {
		return f.Item.Kind == trust.Program || f.Item.File == ".trellis/rehearsal.yaml"
	})
}

// checkProgramTrust returns an error if what the settings name may not be run now: an earlier version of the settings can stay in
// force, but not of programs.
func (p *Project) checkProgramTrust(ctx context.Context) error {
	_, err := p.InForce(ctx)
	return err
}

// WarnOldSettings prints that earlier settings are in force.
func (p *Project) WarnOldSettings(ctx context.Context) {
	v, err := p.Gate.judge.Subject(ctx, subject.Settings())
	var untrusted *trust.UntrustedError
	if err == nil && errors.As(v.Err(), &untrusted) {
		p.Env.say("%v: those that were trusted last stay in force", untrusted)
		p.Env.say("next: %s", untrusted.Next())
	}
}

// CheckTrustedNow returns an error unless the settings that are checked out are in force.
func (p *Project) CheckTrustedNow(ctx context.Context) error {
	if _, err := p.InForce(ctx); err != nil {
		return err
	}
	v, err := p.Gate.judge.Subject(ctx, subject.Settings())
	if err == nil {
		err = v.Err()
	}
	return err
}

// WithNextCommand adds to an error's message what to do about it, for output without hints.
func WithNextCommand(err error) error {
	if untrusted, ok := errors.AsType[*trust.UntrustedError](err); ok {
		return fmt.Errorf("%w; next: %s", err, untrusted.Next())
	}
	return err
}
