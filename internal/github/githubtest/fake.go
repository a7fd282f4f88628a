package githubtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// answer is the output and the exit code of the program.
type answer struct {
	out, said string
	code      int
	lost      string // how the answer gets lost, see State.Lost
}

func failed(said string) answer { return answer{said: said + "\n", code: 1} }

func (a answer) end() {
	switch a.lost {
	case "hang":
		time.Sleep(time.Hour) // until the caller kills this process
	case "cut":
		a = failed(cutOff)
	}
	fmt.Fprint(os.Stdout, a.out)
	fmt.Fprint(os.Stderr, a.said)
	os.Exit(a.code)
}

// Messages of gh when it can't do what it is asked to.
const (
	signedOut = "To get started with GitHub CLI, please run:  gh auth login\nAlternatively, populate the GH_TOKEN environment variable with a GitHub API authentication token.\n"
	nowhere   = "none of the git remotes configured for this repository point to a known GitHub host. To tell gh about a new GitHub host, please use `gh auth login`"
	cutOff    = "unexpected EOF"
)

var faults = map[string]string{
	"401":  "HTTP 401: Bad credentials (https://api.github.example/graphql)\nTry authenticating with:  gh auth login",
	"403":  "HTTP 403: API rate limit exceeded for user ID 1. (https://api.github.example/graphql)",
	"429":  "HTTP 429: You have exceeded a secondary rate limit. Please wait a few minutes before you try again. (https://api.github.example/graphql)",
	"away": "error connecting to api.github.example\ncheck your internet connection or https://githubstatus.com",
	"502":  "HTTP 502: Server Error (https://api.github.example/graphql)",
}

// outOfOrder returns the error that keeps a call from being answered, if any; nothing is done then.
func (s *State) outOfOrder(n int, args []string) answer {
	switch {
	case s.SignedOut:
		return answer{said: signedOut, code: 4}
	case s.FailFrom > 0 && n >= s.FailFrom && n <= s.FailTo:
		return failed(faults["502"])
	case len(remotes()) == 0:
		return failed("no git remotes found")
	case slices.Contains(s.Elsewhere, s.repository()):
		return failed(nowhere)
	case s.Fault == "cut" || s.Fault == "hang":
		return answer{lost: s.Fault}
	case s.Fault != "":
		return failed(faults[s.Fault])
	case s.Unknown && args[0] == "api":
		return failed("gh: Not Found (HTTP 404)")
	case s.Unknown:
		return failed("GraphQL: Could not resolve to a Repository with the name 'ann/" + s.repository() + "'. (repository)")
	}
	return answer{}
}

// answer carries out the command in the arguments.
func (s *State) answer(args []string) answer {
	if len(args) < 2 {
		return failed("unknown command " + strings.Join(args, " "))
	}
	s.pushed()
	f := parse(args[2:])
	do := map[string]func(flags) answer{"repo view": s.view, "run view": s.log, "pr list": s.list, "pr create": s.create, "pr view": s.viewPR, "api graphql": s.graphql}[args[0]+" "+args[1]]
	switch {
	case do != nil:
		return do(f)
	case args[0] == "api":
		return s.request(parse(args[1:]))
	}
	return failed(fmt.Sprintf("unknown command %q for \"gh\"", strings.Join(args[:2], " ")))
}

// known lists the fields that gh 2.23 supports.
var known = map[string][]string{
	"pr":   strings.Split("additions assignees author autoMergeRequest baseRefName body changedFiles closed closedAt comments commits createdAt deletions files headRefName headRefOid headRepository headRepositoryOwner id isCrossRepository isDraft labels latestReviews maintainerCanModify mergeCommit mergeStateStatus mergeable mergedAt mergedBy milestone number potentialMergeCommit projectCards reactionGroups reviewDecision reviewRequests reviews state statusCheckRollup title updatedAt url", " "),
	"repo": {"name", "nameWithOwner", "url"},
}

// chosen returns the requested fields of one or several things.
func chosen(of string, f flags, several bool, things ...m) answer {
	list := []m{}
	for _, thing := range things {
		one := m{}
		for _, name := range strings.Split(f.of["--json"], ",") {
			if !slices.Contains(known[of], name) {
				return failed(fmt.Sprintf("Unknown JSON field: %q\nAvailable fields:\n  %s", name, strings.Join(known[of], "\n  ")))
			}
			one[name] = thing[name]
		}
		list = append(list, one)
	}
	if several {
		return answer{out: object(list)}
	}
	return answer{out: object(list[0])}
}

func (s *State) view(f flags) answer { return chosen("repo", f, false, m{"url": s.home()}) }

func (s *State) log(f flags) answer {
	log, is := s.Logs[f.of["--job"]]
	if !is {
		return failed("failed to get job: HTTP 404: Not Found (https://api.github.example/repos/ann/greet/actions/jobs/" + f.of["--job"] + ")")
	}
	if s.Stepless {
		return answer{}
	}
	var out string
	for line := range strings.Lines(log) {
		out += "test\tRun\t" + line
	}
	return answer{out: out}
}

func (s *State) viewPR(f flags) answer {
	if len(f.plain) == 0 {
		return failed("argument required when using the --repo flag")
	}
	pr := s.find(f.plain[0])
	if pr == nil {
		return failed("GraphQL: Could not resolve to a PullRequest with the number of " + f.plain[0] + ". (repository.pullRequest)")
	}
	return chosen("pr", f, false, pr)
}

func (s *State) list(f flags) answer {
	list := []m{}
	for _, pr := range s.PRs {
		if s.here(pr) && (f.of["--head"] == "" || pr["headRefName"] == f.of["--head"]) && (f.of["--state"] == "all" || pr["state"] == "OPEN") {
			list = append(list, pr)
		}
	}
	return chosen("pr", f, true, list...)
}

func (s *State) create(f flags) answer {
	body, err := io.ReadAll(os.Stdin)
	if err != nil || f.of["--body-file"] != "-" {
		return failed("no body")
	}
	head, base := f.of["--head"], f.of["--base"]
	for _, pr := range s.PRs {
		if s.here(pr) && pr["headRefName"] == head && pr["state"] == "OPEN" {
			return failed(fmt.Sprintf("a pull request for branch %q into branch %q already exists:\n%s", head, base, pr["url"]))
		}
	}
	_, draft := f.of["--draft"]
	pr, said := s.open(head, base, f.of["--title"], string(body), draft)
	if said != "" {
		return failed("pull request create failed: GraphQL: " + said + " (createPullRequest)")
	}
	lost := s.Lost
	s.Lost = ""
	return answer{out: fmt.Sprintln(pr["url"]), lost: lost}
}

// request carries out gh api with a path.
func (s *State) request(f flags) answer {
	at, err := url.Parse(f.plain[0])
	if err != nil || f.of["--hostname"] != "github.example" {
		return failed("gh: no such host")
	}
	path, ok := strings.CutPrefix(at.EscapedPath(), "repos/ann/"+s.repository()+"/")
	var in m
	if f.of["--input"] == "-" {
		err = json.NewDecoder(os.Stdin).Decode(&in)
	}
	if err != nil || !ok {
		return failed("gh: Not Found (HTTP 404)")
	}
	r := s.rest(f.of["--method"], path, at.Query(), in)
	if r.code >= http.StatusBadRequest {
		return answer{out: object(r.body), said: fmt.Sprintf("gh: %s (HTTP %d)\n", r.body.(m)["message"], r.code), code: 1}
	}
	if r.raw != nil {
		return answer{out: string(r.raw)}
	}
	return answer{out: object(r.body), lost: r.lost}
}

// graphql answers the query for what gh pr view does not return.
func (s *State) graphql(f flags) answer {
	pr := s.find(f.of["number"])
	if pr == nil || f.of["--hostname"] != "github.example" || f.of["owner"] != "ann" || f.of["name"] != s.repository() || !strings.Contains(f.of["query"], "reviewThreads") {
		return failed("gh: Could not resolve to a PullRequest with the number of " + f.of["number"] + ".")
	}
	return answer{out: object(m{"data": m{"repository": m{"pullRequest": page(s.node(pr), f.of["after"])}}})}
}

func object(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
