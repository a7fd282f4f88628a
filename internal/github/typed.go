package github

import (
	"fmt"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// SignInCommand is what to type where gh knows no account.
func (gh *Client) SignInCommand() string { return "gh auth login" }

// CreateCommand makes a pull request whose text is that of a file, or n's with "".
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

// ReopenCommand opens a pull request again.
func (gh *Client) ReopenCommand(number int) string { return fmt.Sprintf("gh pr reopen %d", number) }

// Means is what GitHub is asked with.
func (gh *Client) Means() string { return "with gh" }
