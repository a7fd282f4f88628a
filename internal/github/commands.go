package github

import (
	"fmt"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// SignInCommand returns the command to type if gh has no account.
func (gh *Client) SignInCommand() string { return "gh auth login" }

// CreateCommand returns a command that opens a pull request with the text of file, or with n.Body if file is "".
func (gh *Client) CreateCommand(n forge.NewPR, file string) string {
	draft, body := "", "--body "+trellis.ShellWord(n.Body)
	if n.Draft {
		draft = " --draft"
	}
	if file != "" {
		body = "--body-file " + trellis.ShellWord(file)
	}
	return fmt.Sprintf("gh pr create%s --base %s --head %s --title %s %s", draft, trellis.ShellWord(n.Base), trellis.ShellWord(n.Head), trellis.ShellWord(n.Title), body)
}

// ReopenCommand returns a command that reopens a pull request.
func (gh *Client) ReopenCommand(number int) string { return fmt.Sprintf("gh pr reopen %d", number) }

// Means returns what GitHub is called with.
func (gh *Client) Means() string { return "with gh" }
