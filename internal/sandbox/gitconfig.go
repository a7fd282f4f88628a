package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/secrets"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// maxSettings is the largest size of a repository's git settings, in bytes.
const maxSettings = 1 << 20

// HidesAccount reports whether the repository's git settings hold an account, which is then hidden.
func (b *Box) HidesAccount() bool {
	data, err := durable.Read(b.gitSettings(), maxSettings)
	return err == nil && secrets.InSettings(data)
}

func (b *Box) gitSettings() string { return filepath.Join(b.Repo.Common, "config") }

// hideAccounts mounts a copy without accounts over the repository's git settings, wherever they are visible, if they hold an
// account. The copy has all settings that git needs.
func (b *Box) hideAccounts(l *layout) error {
	data, err := durable.Read(b.gitSettings(), maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for credentials in git's settings: %w", err)
	}
	if !secrets.InSettings(data) {
		return nil
	}
	shown := filepath.Join(b.Repo.Common, "trellis", "config")
	if err := writeIfChanged(shown, settingsWithoutAccounts(data)); err != nil {
		return fmt.Errorf("making git's settings without credentials: %w", err)
	}
	over := []git.Mount{{From: shown, To: b.gitSettings()}}
	for _, m := range l.overlays {
		if m.From == b.Repo.Common {
			over = append(over, git.Mount{From: shown, To: filepath.Join(m.To, "config")})
		}
	}
	l.overlays = append(slices.Clone(l.overlays), over...)
	return nil
}

func writeIfChanged(path string, data []byte) error {
	if old, err := durable.Read(path, maxSettings); err == nil && string(old) == string(data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return new(durable.Disk).WriteFile(path, data, 0o600)
}

// urlAccount matches an account in a URL.
var urlAccount = trellis.Pattern(`://(?:[^/\s:@"]*:[^/\s@"]+|[^/\s:@"]{12,})@`)

// settingsWithoutAccounts returns git settings without accounts: URLs lose their account, and other lines that hold one are left out together
// with their continuation lines.
func settingsWithoutAccounts(data []byte) []byte {
	var kept strings.Builder
	leaving := false
	for line := range strings.Lines(string(data)) {
		goesOn := strings.HasSuffix(strings.TrimRight(line, "\r\n"), `\`)
		if leaving {
			leaving = goesOn
			continue
		}
		line = urlAccount().ReplaceAllString(line, "://")
		switch holds := secrets.InSettings([]byte(line)); {
		case !holds:
			kept.WriteString(line)
		case strings.HasPrefix(strings.TrimSpace(line), "["): // the lines below must not become part of the section above
			kept.WriteString("[hidden]\n")
		default:
			leaving = goesOn
		}
	}
	return []byte(kept.String())
}
