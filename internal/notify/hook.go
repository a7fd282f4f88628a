package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// hookTimeout is how long one attempt with a hook may take.
const hookTimeout = 30 * time.Second

type hook struct {
	events  []string
	command []string
	webhook string
	channel channel // nil: the hook gets the event itself, not a message
	key     string  // the same for the same hook in every process; reveals nothing of a URL
	name    string  // to show to people: of a URL only the host
}

func newHook(c config.Notify) hook {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.Webhook}, c.Command...), "\x00")))
	h := hook{events: c.On, command: c.Command, webhook: c.Webhook, key: hex.EncodeToString(sum[:6])}
	if c.ForPeople() {
		said, _ := json.Marshal(c) // contains names of variables, but no secret
		sum = sha256.Sum256(said)
		h.channel, h.key, h.name = newChannel(c), hex.EncodeToString(sum[:6]), c.Kind
	} else if len(c.Command) > 0 {
		h.name = filepath.Base(c.Command[0])
	} else if u, err := url.Parse(c.Webhook); err == nil {
		h.name = u.Host
	}
	h.name = cmp.Or(c.Name, h.name)
	return h
}

// notifies reports whether the hook sends people messages about a topic.
func (h hook) notifies(topic string) bool {
	return h.channel != nil && slices.Contains(h.events, topic)
}

// unreachableError is the error of a hook that can't be reached, or didn't answer in time; other events would fail now too.
type unreachableError struct{ error }

func (h hook) send(ctx context.Context, n *Notifier, e *Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding news: %w", err)
	}
	if len(h.command) > 0 {
		return h.run(ctx, n, e, body)
	}
	return h.post(ctx, e, body)
}

func (h hook) run(ctx context.Context, n *Notifier, e *Event, body []byte) error {
	if n.Allowed != nil {
		if err := n.Allowed(ctx); err != nil {
			return unreachableError{err}
		}
	}
	env := append(append([]string{}, n.Env...), "TRELLIS_NEWS_ID="+e.ID, "TRELLIS_TASK_ID="+e.Task, "TRELLIS_TASK_DIR="+filepath.Join(n.Root, e.Dir),
		"TRELLIS_REPO="+n.Root, "TRELLIS_STATUS="+string(e.Status), "TRELLIS_EVENT="+e.Event, "TRELLIS_FROM="+string(e.From), "TRELLIS_CODE="+string(e.Failure.Code), "TRELLIS_TITLE="+e.Title)
	stderr := proc.NewCapped(500)
	err := proc.RunSuccessfully(ctx, proc.Command{Argv: h.command, Dir: n.Root, Env: env, Stdin: bytes.NewReader(append(body, '\n')), Stderr: stderr, Wall: hookTimeout, Grace: time.Second})
	var failed *proc.FailedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed) && !failed.TimedOut:
		return errors.New(strings.TrimSuffix(err.Error()+": "+strings.TrimSpace(stderr.String()), ": "))
	}
	return unreachableError{err}
}

// post sends an event to a server that may have it already; the idempotency key tells the server.
func (h hook) post(ctx context.Context, e *Event, body []byte) error {
	a, err := post(ctx, h.webhook, body, http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {e.ID}})
	var perhaps uncertainError
	switch {
	case errors.As(err, &perhaps):
		return unreachableError{perhaps.error}
	case err != nil:
		return err
	case a.code/100 != 2:
		return fmt.Errorf("it answered %s", a.status)
	}
	return nil
}
