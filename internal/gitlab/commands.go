package gitlab

import (
	"fmt"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// SignInCommand returns the command to type if there is no token, or the repository is on another GitLab than the configured one.
func (c *Client) SignInCommand() string {
	if c.foreignHost != "" {
		return "trellis config set trackers.gitlab.url " + trellis.ShellWord("https://"+c.foreignHost)
	}
	return "export GITLAB_TOKEN=…"
}

// CreateCommand returns a glab command that opens a merge request with the text of file, or with n.Body if file is "".
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

// ReopenCommand returns a command that reopens a merge request.
func (c *Client) ReopenCommand(number int) string { return fmt.Sprintf("glab mr reopen %d", number) }

// Means returns how GitLab is used, for messages about pull requests.
func (c *Client) Means() string { return "as merge requests of " + c.place.URL }
