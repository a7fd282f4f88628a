package config

import (
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Kinds of notifiers. ByCommand and ByWebhook get the news as JSON, all others a message for people.
const (
	ByCommand = "command"
	ByWebhook = "webhook"
	ByDesktop = "desktop"
	BySlack   = "slack"
	ByDiscord = "discord"
	ByNtfy    = "ntfy"
	ByEmail   = "email"
)

// Topics of messages for people, for the key on.
const (
	NeedsYou  = "needs_you"
	IsFailed  = "failed"
	Delivered = "delivered"
	Spent     = "budget"
	Watcher   = "watcher"
)

// Topics are all topics of messages for people, which are also the default of on.
var Topics = []string{NeedsYou, IsFailed, Delivered, Spent, Watcher}

// Notify is a notifier, which reports what becomes of tasks: to a program or a webhook by JSON, to people by a message.
type Notify struct {
	Kind        string   `yaml:"kind" oneof:"command webhook desktop slack discord ntfy email" doc:"the channel; empty: command or webhook, whichever is set"`
	Name        string   `yaml:"name" doc:"the name of this entry; empty: its kind, or the program or host"`
	On          []string `yaml:"on" doc:"command, webhook: task statuses to report; mergeable: its pull request is approved and its checks pass. All others: needs_you, failed, delivered, budget, watcher; empty: all of these"`
	Command     []string `yaml:"command" doc:"a program and its arguments, which gets the message as JSON on stdin; a relative path starts at the main checkout"`
	Webhook     string   `yaml:"webhook" doc:"a URL that the message is posted to, as JSON"`
	URL         string   `yaml:"url" doc:"ntfy: the URL of the topic"`
	URLEnv      string   `yaml:"url_env" doc:"slack, discord, ntfy: the environment variable that holds the URL"`
	TokenEnv    string   `yaml:"token_env" doc:"ntfy: the environment variable that holds the access token"`
	Server      string   `yaml:"server" doc:"email: host:port of the mail server"`
	TLS         string   `yaml:"tls" oneof:"starttls tls" doc:"email: starttls (the default), or tls from the first byte; nothing is sent unencrypted"`
	User        string   `yaml:"user" doc:"email: the user who signs in to the server; empty: no sign-in"`
	PasswordEnv string   `yaml:"password_env" doc:"email: the environment variable that holds the user's password"`
	From        string   `yaml:"from" doc:"email: the sender's address"`
	To          []string `yaml:"to" doc:"email: the recipients' addresses"`
}

// ForPeople reports whether the notifier gets messages for people.
func (n Notify) ForPeople() bool { return n.Kind != "" && n.Kind != ByCommand && n.Kind != ByWebhook }

// Secrets returns the names of the environment variables that hold secrets.
func (n Notify) Secrets() []string {
	return slices.DeleteFunc([]string{n.URLEnv, n.TokenEnv, n.PasswordEnv}, func(s string) bool { return s == "" })
}

// kindFields are the fields that a kind may have, besides kind, name and on.
var kindFields = map[string][]string{
	ByCommand: {"command"}, ByWebhook: {"webhook"}, BySlack: {"url_env"}, ByDiscord: {"url_env"}, ByNtfy: {"url", "url_env", "token_env"},
	ByEmail: {"server", "tls", "user", "password_env", "from", "to"},
}

// setFields returns the fields that a notifier has.
func (n Notify) setFields() (list []string) {
	for _, f := range []struct {
		name  string
		there bool
	}{{"command", len(n.Command) > 0}, {"webhook", n.Webhook != ""}, {"url", n.URL != ""}, {"url_env", n.URLEnv != ""}, {"token_env", n.TokenEnv != ""},
		{"server", n.Server != ""}, {"tls", n.TLS != ""}, {"user", n.User != ""}, {"password_env", n.PasswordEnv != ""}, {"from", n.From != ""}, {"to", len(n.To) > 0}} {
		if f.there {
			list = append(list, f.name)
		}
	}
	return list
}

func (d *decoder) notify(c *Config) {
	for i, n := range c.Notify {
		key := itemKey("notify", i)
		if n.Kind == "" && d.isSet(key+".kind") { // the kind is not one, which was reported
			continue
		}
		if n.Kind == "" && (len(n.Command) == 0) == (n.Webhook == "") {
			d.report(key, " has either a command or a webhook, or a kind: desktop, slack, discord, ntfy or email")
		}
		if n.Kind != "" {
			d.checkKind(key, n)
		}
		if u, err := url.Parse(n.Webhook); n.Webhook != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
			d.report(key+".webhook", " is not an http or https address")
		}
		if n.ForPeople() {
			d.topics(key, n)
			if len(n.On) == 0 {
				c.Notify[i].On = slices.Clone(Topics)
			}
			continue
		}
		if len(n.On) == 0 {
			d.report(key, " names no status to report: on: [failed, waiting]")
		}
		for j, s := range n.On {
			if known := append(trellis.Strings(trellis.Statuses), Mergeable); !slices.Contains(known, s) {
				d.report(itemKey(key+".on", j), " is not a status%s", suggestion(s, known))
			}
		}
	}
}

func (d *decoder) topics(key string, n Notify) {
	for j, s := range n.On {
		if !slices.Contains(Topics, s) {
			d.report(itemKey(key+".on", j), " is not one of %s%s", strings.Join(Topics, ", "), suggestion(s, Topics))
		}
	}
}

// checkKind checks that a notifier has what its kind needs, and nothing of another one.
func (d *decoder) checkKind(key string, n Notify) {
	for _, f := range n.setFields() {
		if !slices.Contains(kindFields[n.Kind], f) {
			d.report(key+"."+f, " is not a field of kind %s", n.Kind)
		}
	}
	needs := func(ok bool, field string) {
		if !ok {
			d.report(key, " of kind %s needs %s", n.Kind, field)
		}
	}
	switch n.Kind {
	case ByCommand:
		needs(len(n.Command) > 0, "command")
	case ByWebhook:
		needs(n.Webhook != "", "webhook")
	case BySlack, ByDiscord:
		needs(n.URLEnv != "", "url_env: the name of the environment variable that holds the URL")
	case ByNtfy:
		needs((n.URL == "") != (n.URLEnv == ""), "either url or url_env")
		d.address(key+".url", n.URL)
	case ByEmail:
		d.email(key, n, needs)
	}
	for _, v := range []struct{ field, name string }{{"url_env", n.URLEnv}, {"token_env", n.TokenEnv}, {"password_env", n.PasswordEnv}} {
		if v.name != "" && !variablePattern().MatchString(v.name) { // it may be a secret, so it is not repeated
			d.report(key+"."+v.field, " is the name of an environment variable; its value does not belong in a file")
		}
	}
}

func (d *decoder) email(key string, n Notify, needs func(bool, string)) {
	needs(n.Server != "", "server: host:port")
	needs(n.From != "", "from")
	needs(len(n.To) > 0, "to")
	needs((n.User == "") == (n.PasswordEnv == ""), "both user and password_env, or neither")
	if host, port, err := net.SplitHostPort(n.Server); n.Server != "" && (err != nil || host == "" || port == "") {
		d.report(key+".server", " is not a host:port")
	}
	if _, err := mail.ParseAddress(n.From); n.From != "" && err != nil {
		d.report(key+".from", " is not a mail address")
	}
	for j, to := range n.To {
		if _, err := mail.ParseAddress(to); err != nil {
			d.report(itemKey(key+".to", j), " is not a mail address")
		}
	}
}
