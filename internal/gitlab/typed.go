package gitlab

import (
	"fmt"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// SignInCommand is what to type where there is no token, or none for this GitLab.
func (c *Client) SignInCommand() string {
	if c.foreign != "" {
		return "trellis config set trackers.gitlab.url " + trellis.ShellWord("https://"+c.foreign)
	}
	return "export GITLAB_TOKEN=…"
}

// CreateCommand makes a merge request with GitLab's own program, glab. Its text is that of a file, or n's with "".
func (c *Client) CreateCommand(n forge.NewPR, file string) string {
	draft, body := "", trellis.ShellWord(n.Body)
	if n.Draft {
		draft = " --draft"
	}
	if file != "" {
		body = `"$(cat ` + trellis.ShellWord(file) + `)"`
	}
	return fmt.Sprintf("glab mr create%s --target-branch %s --source-branch %s --title %s --description %s", draft, trellis.ShellWord(n.Base), trellis.ShellWord(n.Head), trellis.ShellWord(n.Title), body)
}

// ReopenCommand opens a merge request again.
func (c *Client) ReopenCommand(number int) string { return fmt.Sprintf("glab mr reopen %d", number) }

// Means is what GitLab is asked with.
func (c *Client) Means() string { return "as merge requests of " + c.place.URL }
