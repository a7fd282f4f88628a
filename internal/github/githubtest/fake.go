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
	stdout, stderr string
	code           int
	lost           string // how the answer gets lost, see State.Lost
}

func failure(said string) answer { return answer{stderr: said + "\n", code: 1} }

func (a answer) exit() {
	switch a.lost {
	case "hang":
		time.Sleep(time.Hour) // until the caller kills this process
	case "cut":
		a = failure(truncatedMessage)
	}
	fmt.Fprint(os.Stdout, a.stdout)
	fmt.Fprint(os.Stderr, a.stderr)
	os.Exit(a.code)
}

// Messages of gh when it can't do what it is asked to.
const (
	signedOutMessage   = "To get started with GitHub CLI, please run:  gh auth login\nAlternatively, populate the GH_TOKEN environment variable with a GitHub API authentication token.\n"
	unknownHostMessage = "none of the git remotes configured for this repository point to a known GitHub host. To tell gh about a new GitHub host, please use `gh auth login`"
	truncatedMessage   = "unexpected EOF"
)

var faults = map[string]string{
	"401":  "HTTP 401: Bad credentials (https://api.github.example/graphql)\nTry authenticating with:  gh auth login",
	"403":  "HTTP 403: API rate limit exceeded for user ID 1. (https://api.github.example/graphql)",
	"429":  "HTTP 429: You have exceeded a secondary rate limit. Please wait a few minutes before you try again. (https://api.github.example/graphql)",
	"away": "error connecting to api.github.example\ncheck your internet connection or https://githubstatus.com",
	"502":  "HTTP 502: Server Error (https://api.github.example/graphql)",
}

// faultAnswer returns the error that keeps a call from being answered, if any; nothing is done then.
func (s *State) faultAnswer(n int, args []string) answer {
	switch {
	case s.SignedOut:
		return answer{stderr: signedOutMessage, code: 4}
	case s.FailFrom > 0 && n >= s.FailFrom && n <= s.FailTo:
		return failure(faults["502"])
	case len(remotes()) == 0:
		return failure("no git remotes found")
	case slices.Contains(s.Elsewhere, s.repository()):
		return failure(unknownHostMessage)
	case s.Fault == "cut" || s.Fault == "hang":
		return answer{lost: s.Fault}
	case s.Fault != "":
		return failure(faults[s.Fault])
	case s.Unknown && args[0] == "api":
		return failure("gh: Not Found (HTTP 404)")
	case s.Unknown:
		return failure("GraphQL: Could not resolve to a Repository with the name 'ann/" + s.repository() + "'. (repository)")
	}
	return answer{}
}

// answer carries out the command in the arguments.
func (s *State) answer(args []string) answer {
	if len(args) < 2 {
		return failure("unknown command " + strings.Join(args, " "))
	}
	s.updateHeads()
	f := parse(args[2:])
	do := map[string]func(flags) answer{"repo view": s.view, "run view": s.log, "pr list": s.listPRs, "pr create": s.createPR, "pr view": s.viewPR, "api graphql": s.graphql}[args[0]+" "+args[1]]
	switch {
	case do != nil:
		return do(f)
	case args[0] == "api":
		return s.request(parse(args[1:]))
	}
	return failure(fmt.Sprintf("unknown command %q for \"gh\"", strings.Join(args[:2], " ")))
}

// knownFields lists the fields that gh 2.23 supports.
var knownFields = map[string][]string{
	"pr":   strings.Split("additions assignees author autoMergeRequest baseRefName body changedFiles closed closedAt comments commits createdAt deletions files headRefName headRefOid headRepository headRepositoryOwner id isCrossRepository isDraft labels latestReviews maintainerCanModify mergeCommit mergeStateStatus mergeable mergedAt mergedBy milestone number potentialMergeCommit projectCards reactionGroups reviewDecision reviewRequests reviews state statusCheckRollup title updatedAt url", " "),
	"repo": {"name", "nameWithOwner", "url"},
}

// selectFields returns the requested fields of one or several things.
func selectFields(kind string, f flags, several bool, things ...m) answer {
	list := []m{}
	for _, thing := range things {
		one := m{}
		for _, name := range strings.Split(f.named["--json"], ",") {
			if !slices.Contains(knownFields[kind], name) {
				return failure(fmt.Sprintf("Unknown JSON field: %q\nAvailable fields:\n  %s", name, strings.Join(knownFields[kind], "\n  ")))
			}
			one[name] = thing[name]
		}
		list = append(list, one)
	}
	if several {
		return answer{stdout: toJSON(list)}
	}
	return answer{stdout: toJSON(list[0])}
}

func (s *State) view(f flags) answer { return selectFields("repo", f, false, m{"url": s.home()}) }

func (s *State) log(f flags) answer {
	log, is := s.Logs[f.named["--job"]]
	if !is {
		return failure("failed to get job: HTTP 404: Not Found (https://api.github.example/repos/ann/greet/actions/jobs/" + f.named["--job"] + ")")
	}
	if s.Stepless {
		return answer{}
	}
	var out string
	for line := range strings.Lines(log) {
		out += "test\tRun\t" + line
	}
	return answer{stdout: out}
}

func (s *State) viewPR(f flags) answer {
	if len(f.positional) == 0 {
		return failure("argument required when using the --repo flag")
	}
	pr := s.findPR(f.positional[0])
	if pr == nil {
		return failure("GraphQL: Could not resolve to a PullRequest with the number of " + f.positional[0] + ". (repository.pullRequest)")
	}
	return selectFields("pr", f, false, pr)
}

func (s *State) listPRs(f flags) answer {
	list := []m{}
	for _, pr := range s.PRs {
		if s.owns(pr) && (f.named["--head"] == "" || pr["headRefName"] == f.named["--head"]) && (f.named["--state"] == "all" || pr["state"] == "OPEN") {
			list = append(list, pr)
		}
	}
	return selectFields("pr", f, true, list...)
}

func (s *State) createPR(f flags) answer {
	body, err := io.ReadAll(os.Stdin)
	if err != nil || f.named["--body-file"] != "-" {
		return failure("no body")
	}
	head, base := f.named["--head"], f.named["--base"]
	for _, pr := range s.PRs {
		if s.owns(pr) && pr["headRefName"] == head && pr["state"] == "OPEN" {
			return failure(fmt.Sprintf("a pull request for branch %q into branch %q already exists:\n%s", head, base, pr["url"]))
		}
	}
	_, draft := f.named["--draft"]
	pr, said := s.openPR(head, base, f.named["--title"], string(body), draft)
	if said != "" {
		return failure("pull request create failed: GraphQL: " + said + " (createPullRequest)")
	}
	lost := s.Lost
	s.Lost = ""
	return answer{stdout: fmt.Sprintln(pr["url"]), lost: lost}
}

// request carries out gh api with a path.
func (s *State) request(f flags) answer {
	at, err := url.Parse(f.positional[0])
	if err != nil || f.named["--hostname"] != "github.example" {
		return failure("gh: no such host")
	}
	path, ok := strings.CutPrefix(at.EscapedPath(), "repos/ann/"+s.repository()+"/")
	var in m
	if f.named["--input"] == "-" {
		err = json.NewDecoder(os.Stdin).Decode(&in)
	}
	if err != nil || !ok {
		return failure("gh: Not Found (HTTP 404)")
	}
	r := s.rest(f.named["--method"], path, at.Query(), in)
	if r.code >= http.StatusBadRequest {
		return answer{stdout: toJSON(r.body), stderr: fmt.Sprintf("gh: %s (HTTP %d)\n", r.body.(m)["message"], r.code), code: 1}
	}
	if r.raw != nil {
		return answer{stdout: string(r.raw)}
	}
	return answer{stdout: toJSON(r.body), lost: r.lost}
}

// graphql answers the query for what gh pr view does not return.
func (s *State) graphql(f flags) answer {
	pr := s.findPR(f.named["number"])
	if pr == nil || f.named["--hostname"] != "github.example" || f.named["owner"] != "ann" || f.named["name"] != s.repository() || !strings.Contains(f.named["query"], "reviewThreads") {
		return failure("gh: Could not resolve to a PullRequest with the number of " + f.named["number"] + ".")
	}
	return answer{stdout: toJSON(m{"data": m{"repository": m{"pullRequest": limitChecks(s.prNode(pr), f.named["after"])}}})}
}

func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
