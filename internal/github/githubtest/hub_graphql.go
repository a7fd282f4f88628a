package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type m = map[string]any

// hubQuery answers the queries of gh commands that Trellis runs, and Trellis' own. It recognizes a query by a field in it. The
// answer may contain more than was asked for, which gh ignores.
func (s *State) hubQuery(in m) reply {
	query, _ := in["query"].(string)
	v, _ := in["variables"].(m)
	if input, is := v["input"].(m); is {
		return s.mutate(query, input)
	}
	switch {
	case strings.Contains(query, "projectCards"):
		return errorReply("", "Projects (classic) is being deprecated in favor of the new Projects experience, see: https://github.blog/changelog/2024-05-23-sunset-notice-projects-classic/.")
	case strings.Contains(query, "__type("):
		return dataReply(m{}) // like an old server, which has none of the fields that gh checks for
	case strings.Contains(query, "search("):
		return dataReply(m{"repository": m{"hasIssuesEnabled": true}, "search": m{"issueCount": 0, "nodes": []any{}, "pageInfo": lastPage}}) // the search index is updated with a delay
	}
	name := v["name"]
	if name == nil {
		name = v["repo"]
	}
	if at := fmt.Sprint(v["owner"], "/", name); at != hubRepo || s.Unknown {
		return errorReply("NOT_FOUND", fmt.Sprintf("Could not resolve to a Repository with the name '%s'.", at))
	}
	return s.repositoryReply(query, v)
}

var lastPage = m{"hasNextPage": false, "endCursor": nil}

func (s *State) repositoryReply(query string, v m) reply {
	repository := m{"id": "R_1", "name": "greet", "nameWithOwner": hubRepo, "url": hubHome, "owner": m{"login": "ann", "id": "U_1"}, "hasIssuesEnabled": true, "description": "",
		"viewerPermission": "WRITE", "defaultBranchRef": m{"name": "main"}, "parent": nil, "mergeCommitAllowed": true, "rebaseMergeAllowed": true, "squashMergeAllowed": true}
	switch {
	case strings.Contains(query, "pullRequest(number"):
		number := v["pr_number"]
		if number == nil {
			number = v["number"]
		}
		pr := s.findPR(fmt.Sprint(number))
		if pr == nil {
			return errorReply("NOT_FOUND", fmt.Sprintf("Could not resolve to a PullRequest with the number of %v.", number))
		}
		repository["pullRequest"] = s.prNode(pr)
		if strings.Contains(query, "isRequired") {
			after, _ := v["after"].(string)
			repository["pullRequest"] = limitChecks(s.prNode(pr), after)
		}
	case strings.Contains(query, "pullRequests("):
		repository["pullRequests"] = s.prNodes(v)
	}
	return dataReply(m{"repository": repository})
}

func dataReply(data m) reply { return reply{code: http.StatusOK, body: m{"data": data}} }

func errorReply(kind, message string) reply {
	return reply{code: http.StatusOK, body: m{"data": m{"repository": nil}, "errors": []any{m{"type": kind, "path": []any{"repository"}, "message": message}}}}
}

// prNodes returns the pull requests of a branch in the requested states, the newest first.
func (s *State) prNodes(v m) m {
	states, _ := v["state"].([]any)
	if states == nil {
		states, _ = v["states"].([]any)
	}
	head := v["headBranch"]
	if head == nil {
		head = v["headRefName"]
	}
	list := []any{}
	for _, pr := range slices.Backward(s.PRs) {
		if (head == nil || pr["headRefName"] == head) && (states == nil || slices.Contains(states, pr["state"])) {
			list = append(list, s.prNode(pr))
		}
	}
	return m{"totalCount": len(list), "nodes": list, "pageInfo": lastPage}
}

// prNode returns a pull request as GraphQL returns it. Labels and reviewers are left out, since nobody asks for them.
func (s *State) prNode(pr m) m {
	node := m{"id": fmt.Sprint("PR_", pr["number"]), "headRepositoryOwner": m{"login": "ann"}}
	for name, value := range pr {
		if name != "labels" && name != "reviewRequests" && name != "required" {
			node[name] = value
		}
	}
	checks := []any{}
	list, _ := pr["statusCheckRollup"].([]any)
	required, _ := pr["required"].([]any)
	for _, c := range list {
		checks = append(checks, context(c.(m), required))
	}
	commits := m{"nodes": []any{m{"commit": m{"oid": pr["headRefOid"], "statusCheckRollup": m{"contexts": m{"nodes": checks, "pageInfo": lastPage}}}}}}
	if list == nil {
		commits = m{"nodes": []any{m{"commit": m{"oid": pr["headRefOid"], "statusCheckRollup": nil}}}}
	}
	node["commits"], node["statusCheckRollup"] = commits, commits
	reviews, _ := pr["reviews"].([]any)
	node["reviews"] = m{"nodes": orEmpty(reviews), "pageInfo": lastPage, "totalCount": len(reviews)}
	threads, _ := pr["reviewThreads"].([]any)
	node["reviewThreads"] = m{"nodes": orEmpty(threads)}
	if node["reviewDecision"] == nil {
		node["reviewDecision"] = ""
	}
	return node
}

// limitChecks limits the checks of a node to what GitHub returns at once, starting after a cursor.
func limitChecks(node m, after string) m {
	commit := node["commits"].(m)["nodes"].([]any)[0].(m)["commit"].(m)
	rollup, is := commit["statusCheckRollup"].(m)
	if !is || rollup == nil {
		return node
	}
	all, _ := rollup["contexts"].(m)["nodes"].([]any)
	from, _ := strconv.Atoi(after) // no cursor: the first page
	to := min(from+100, len(all))
	rollup["contexts"] = m{"nodes": all[from:to], "pageInfo": m{"hasNextPage": to < len(all), "endCursor": strconv.Itoa(to)}}
	return node
}

func orEmpty(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

// context returns a check run or a commit status as GraphQL returns it.
func context(c m, required []any) m {
	if c["context"] != nil {
		return m{"__typename": "StatusContext", "context": c["context"], "state": c["state"], "targetUrl": c["targetUrl"], "createdAt": c["startedAt"], "isRequired": slices.Contains(required, c["context"])}
	}
	return m{"__typename": "CheckRun", "name": c["name"], "checkSuite": m{"workflowRun": m{"workflow": m{"name": c["workflowName"]}}}, "status": c["status"], "conclusion": c["conclusion"],
		"startedAt": c["startedAt"], "completedAt": c["completedAt"], "detailsUrl": c["detailsUrl"], "isRequired": slices.Contains(required, c["name"])}
}

// mutate carries out a mutation that creates a pull request.
func (s *State) mutate(query string, in m) reply {
	if !strings.Contains(query, "createPullRequest(") {
		return errorReply("", "the hub knows no such mutation: "+query)
	}
	text := func(name string) string { t, _ := in[name].(string); return t }
	draft, _ := in["draft"].(bool)
	pr, said := s.openPR(text("headRefName"), text("baseRefName"), text("title"), text("body"), draft)
	if said != "" {
		return reply{code: http.StatusOK, body: m{"data": m{"createPullRequest": nil}, "errors": []any{m{"type": "UNPROCESSABLE", "path": []any{"createPullRequest"}, "message": said}}}}
	}
	return s.loseIfAsked(dataReply(m{"createPullRequest": m{"pullRequest": m{"id": fmt.Sprint("PR_", pr["number"]), "url": pr["url"]}}}))
}

// loseIfAsked marks the answer as lost if the state asks for that.
func (s *State) loseIfAsked(r reply) reply {
	r.lost, s.Lost = s.Lost, ""
	return r
}
