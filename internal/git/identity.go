package git

import (
	"context"
	"os"
	"strings"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// configured is "Name <mail>" of the author when it is plain who author and committer are, by environment and
// configuration, so that git would make up nothing; else "".
func (r Author) configured(ctx context.Context) string {
	said, asked := map[string]string{}, false
	find := func(variable, key, common string) string {
		if value, ok := r.getenv(variable); ok {
			return value
		}
		if !asked {
			said, asked = r.persons(ctx), true
		}
		if value, ok := said[key]; ok {
			return value
		}
		return said[common]
	}
	name, mail := find("GIT_AUTHOR_NAME", "author.name", "user.name"), find("GIT_AUTHOR_EMAIL", "author.email", "user.email")
	for _, value := range []string{name, mail, find("GIT_COMMITTER_NAME", "committer.name", "user.name"), find("GIT_COMMITTER_EMAIL", "committer.email", "user.email")} {
		if value == "" || strings.TrimFunc(value, trimCrud) != value || strings.ContainsAny(value, "\n<>") {
			return "" // git knows what to make of it
		}
	}
	return name + " <" + mail + ">"
}

// trimCrud is what git takes away from the ends of names and addresses.
func trimCrud(c rune) bool { return c <= ' ' || strings.ContainsRune(`.,:;<>"\'`, c) }

// persons is what the configuration says of people.
func (r Author) persons(ctx context.Context) map[string]string {
	const none = 1
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"config", "-z", "--get-regexp", `^(user|author|committer)\.(name|email)$`}, Accept: []int{none}})
	if err != nil {
		return nil
	}
	said := map[string]string{}
	for entry := range strings.SplitSeq(out, "\x00") {
		if key, value, ok := strings.Cut(entry, "\n"); ok {
			said[key] = value
		}
	}
	return said
}

// getenv is a variable as git commands see it.
func (r *Repo) getenv(name string) (value string, ok bool) {
	if r.Env == nil {
		return os.LookupEnv(name)
	}
	return proc.Getenv(r.Env, name)
}
