package agents

import (
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// unknownLimit is how long to wait when a provider limits requests and does not say until when.
const unknownLimit = 5 * time.Minute

// fail is a failure that is tried again where the failure table says so.
func fail(code trellis.Code, format string, args ...any) *flow.Failure {
	f := &flow.Failure{Code: string(code), Detail: fmt.Sprintf(format, args...)}
	for _, info := range trellis.Codes {
		if info.Code == code {
			f.Retryable = info.Retried
		}
	}
	return f
}

// limited is a rate limit; it always has a time to go on at.
func limited(until time.Time, detail string) *flow.Failure {
	f := fail(trellis.RateLimited, "%s", detail)
	f.ResumeAt = until
	if until.IsZero() {
		f.ResumeAt = time.Now().Add(unknownLimit)
	}
	f.ResumeAt = f.ResumeAt.Truncate(time.Second)
	return f
}

// byStatus is the failure that an HTTP status of the provider means; nil when it says nothing special.
func byStatus(status int, until time.Time, detail string) *flow.Failure {
	switch status {
	case 401, 403:
		return fail(trellis.AgentAuth, "%s", detail)
	case 429:
		return limited(until, detail)
	case 413:
		return fail(trellis.ContextOverflow, "%s", detail)
	}
	return nil
}

// lastLines is the end of what a program complained, fit for a message.
func lastLines(s string) string {
	const most = 2000
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > most {
		s = "…" + strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return s
}
