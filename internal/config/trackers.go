package config

import "strings"

// Trackers says where the issues are that tasks come from.
type Trackers struct {
	Comment bool        `yaml:"comment" doc:"add the URL of a task's pull request to the issue that it came from"`
	Linear  Tracker     `yaml:"linear"`
	Jira    JiraTracker `yaml:"jira"`
	GitLab  SiteTracker `yaml:"gitlab"`
	GitHub  Tracker     `yaml:"github"`
}

// Tracker is a tracker with one address for everybody.
type Tracker struct {
	TokenCommand []string `yaml:"token_command" doc:"a program and its arguments whose first line of output is the token, if no environment variable has one; it is in PATH, or begins with /"`
}

// SiteTracker is a tracker that people can run themselves.
type SiteTracker struct {
	URL          string   `yaml:"url" doc:"its URL, such as https://git.example.org; empty: gitlab.com"`
	TokenCommand []string `yaml:"token_command" doc:"a program and its arguments whose first line of output is the token, if no environment variable has one; it is in PATH, or begins with /"`
}

// JiraTracker is a Jira site.
type JiraTracker struct {
	URL          string   `yaml:"url" doc:"its URL, such as https://acme.atlassian.net"`
	Email        string   `yaml:"email" doc:"in the cloud, the account of the token, unless JIRA_EMAIL is set; empty: a data center, whose tokens identify the account"`
	TokenCommand []string `yaml:"token_command" doc:"a program and its arguments whose first line of output is the token, if no environment variable has one; it is in PATH, or begins with /"`
}

// trackers checks that tokens go to valid addresses, and that no program of the checkout is asked for them.
func (d *decoder) trackers(c *Config) {
	t := c.Trackers
	d.address("trackers.jira.url", t.Jira.URL)
	d.address("trackers.gitlab.url", t.GitLab.URL)
	for key, command := range map[string][]string{"linear": t.Linear.TokenCommand, "jira": t.Jira.TokenCommand, "gitlab": t.GitLab.TokenCommand, "github": t.GitHub.TokenCommand} {
		if len(command) > 0 && strings.Contains(command[0], "/") && !strings.HasPrefix(command[0], "/") {
			d.report("trackers."+key+".token_command", " names a program of the checkout: it has to be in PATH, or begin with /")
		}
	}
}
