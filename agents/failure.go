package agents

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// unknownLimit is how long to wait when a provider limits requests and does not say until when.
const unknownLimit = 5 * time.Minute

// fail returns a failure that is retried if the failure table says so.
func fail(code trellis.Code, format string, args ...any) *flow.Failure {
	info, _ := code.Info()
	return &flow.Failure{Code: string(code), Detail: fmt.Sprintf(format, args...), Retryable: info.Retried}
}

// rateLimitFailure returns a rate_limited failure. Its ResumeAt is always set: until, or unknownLimit from now if until is zero.
func rateLimitFailure(until time.Time, detail string) *flow.Failure {
	f := fail(trellis.RateLimited, "%s", detail)
	f.ResumeAt = until
	if until.IsZero() {
		f.ResumeAt = time.Now().Add(unknownLimit)
	}
	f.ResumeAt = f.ResumeAt.Truncate(time.Second)
	return f
}

// statusFailure returns the failure that an HTTP status of the provider means, or nil if it means none. 0 stands for no response.
func statusFailure(status int, until time.Time, detail string) *flow.Failure {
	switch {
	case status == http.StatusPaymentRequired, status < 500 && isQuotaExhausted(detail):
		return fail(trellis.QuotaExhausted, "%s", detail)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fail(trellis.AgentAuth, "%s", detail)
	case status == http.StatusTooManyRequests:
		return rateLimitFailure(until, detail)
	case status == http.StatusRequestEntityTooLarge:
		return fail(trellis.ContextOverflow, "%s", detail)
	case status >= 500:
		return fail(trellis.ProviderDown, "%s", detail)
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return nil
	case status >= 400:
		return refusedRequest(detail)
	}
	return nil
}

// refusedRequest returns the failure of a request that the provider refuses. It is not retried, since it would be refused again.
func refusedRequest(detail string) *flow.Failure {
	f := fail(trellis.AgentExit, "%s", detail)
	f.Retryable = false
	return f
}

// isContextOverflow reports whether a provider's message says that the prompt or the conversation is too long for the model.
// Each provider words it differently.
func isContextOverflow(words string) bool {
	words = strings.ToLower(words)
	return slices.ContainsFunc([]string{"context_length_exceeded", "exceed_context_size", "prompt is too long", "exceed context limit", "context length", "context window",
		"exceeds the maximum number of tokens"},
		func(said string) bool { return strings.Contains(words, said) })
}

// isQuotaExhausted reports whether a provider's message says that the account has nothing left, which waiting does not change.
func isQuotaExhausted(words string) bool {
	words = strings.ToLower(words)
	return slices.ContainsFunc([]string{"insufficient_quota", "quota exceeded", "exceeded your current quota", "credit balance is too low",
		"insufficient credits", "insufficient balance", "billing_error", "billing_hard_limit"},
		func(said string) bool { return strings.Contains(words, said) })
}

// maxComplaint is the largest number of bytes of a program's error output that a message quotes.
const maxComplaint = 1000

// lastLines returns the end of a program's error output for use in a message: repeated lines appear once, and of log lines
// only the error is kept.
func lastLines(s string) string {
	var list []string
	for line := range strings.Lines(strings.ToValidUTF8(s, "\uFFFD")) {
		line = strings.TrimSpace(line)
		if words, _ := openCodeError(line); words != "" {
			line = words
		}
		list = slices.DeleteFunc(list, func(said string) bool { return said == line })
		if line != "" {
			list = append(list, line)
		}
	}
	return text.Tail(strings.Join(list, "\n"), maxComplaint)
}
