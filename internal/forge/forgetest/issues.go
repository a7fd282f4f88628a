package forgetest

import (
	"fmt"
	"io"
	"os"
	"slices"
)

func (s *State) makeLabel(f flags) (out, said string, code int) {
	if slices.Contains(s.Labels, f.plain[0]) {
		return "", fmt.Sprintf("label with name %q already exists; use `--force` to update its color and description", f.plain[0]), 1
	}
	s.Labels = append(s.Labels, f.plain[0])
	return "", "", 0
}

func (s *State) issues(f flags) (out, said string, code int) {
	list := []map[string]any{}
	for _, i := range s.Issues {
		if i["label"] == f.of["--label"] && (f.of["--state"] == "all" || i["state"] == "OPEN") {
			list = append(list, i)
		}
	}
	return object(list), "", 0
}

func (s *State) createIssue(f flags) (out, said string, code int) {
	body, err := io.ReadAll(os.Stdin)
	if err != nil || f.of["--body-file"] != "-" {
		return "", "no body", 1
	}
	if label := f.of["--label"]; !slices.Contains(s.Labels, label) {
		return "", "could not add label: '" + label + "' not found", 1
	}
	url := fmt.Sprintf("https://github.example/ann/greet/issues/%d", 100+len(s.Issues)+1)
	s.Issues = append(s.Issues, map[string]any{"number": 100 + len(s.Issues) + 1, "url": url, "state": "OPEN", "title": f.of["--title"], "body": string(body), "label": f.of["--label"]})
	return url + "\n", "", 0
}
