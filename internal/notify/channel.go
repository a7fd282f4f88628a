package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/text"
)

// channel sends messages to people. An error from send is an unreachableError, retryLaterError, refusedError or uncertainError;
// any other error means that the message did not arrive and may be sent again.
type channel interface {
	send(ctx context.Context, n *Notifier, m message) error
}

// retryLaterError is the error of a server that asks for no requests until some time has passed.
type retryLaterError struct {
	error
	after time.Duration
}

// refusedError is the error of a server that will never accept this message.
type refusedError struct{ error }

// uncertainError is the error for a message that may have arrived; it is not sent again.
type uncertainError struct{ error }

// maxRetryDelay bounds how long a server may have us wait.
const maxRetryDelay = time.Hour

func newChannel(c config.Notify) channel {
	switch c.Kind {
	case config.ByDesktop:
		return desktop{}
	case config.BySlack:
		return slack{c.URLEnv}
	case config.ByDiscord:
		return discord{c.URLEnv}
	case config.ByNtfy:
		return ntfy{c.URL, c.URLEnv, c.TokenEnv}
	case config.ByEmail:
		return email{c}
	}
	return nil
}

// secret returns the value of an environment variable that the settings name, and an error if it is not set.
func (n *Notifier) secret(name string) (string, error) {
	value := ""
	if n.Getenv != nil {
		value = strings.TrimSpace(n.Getenv(name))
	}
	if value == "" {
		return "", fmt.Errorf("$%s is not set", name)
	}
	return value, nil
}

// postJSON posts a document to an address that may be a secret, and returns the server's answer.
func postJSON(ctx context.Context, address string, document any) (answer, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return answer{}, fmt.Errorf("encoding the message: %w", err)
	}
	return post(ctx, address, body, http.Header{"Content-Type": {"application/json"}})
}

// answer is a server's response.
type answer struct {
	status string
	code   int
	body   string
	header http.Header
	hide   func(string) string // removes the address from a text
}

// post makes one attempt. It follows no redirects: a message is meant for the configured host only.
func post(ctx context.Context, address string, body []byte, header http.Header) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) { written.Store(i.Err == nil) }})
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return answer{}, errors.New("its address is not an http or https address")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return answer{}, errors.New("its address can't be used")
	}
	req.Header = header
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	var with *url.Error // its text contains the whole address
	if errors.As(err, &with) {
		err = with.Err
	}
	switch {
	case err != nil && written.Load():
		return answer{}, uncertainError{err}
	case err != nil:
		return answer{}, unreachableError{err}
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return answer{res.Status, res.StatusCode, string(said), res.Header, hider(u)}, nil
}

// hider returns a function that replaces u, and the parts of it that may be secret, in a text.
func hider(u *url.URL) func(string) string {
	hidden := []string{u.String(), "***"}
	if u.RawQuery != "" {
		hidden = append(hidden, u.RawQuery, "***")
	}
	if len(u.Path) > 1 {
		hidden = append(hidden, u.Path, "***")
	}
	for _, part := range strings.Split(u.Path, "/") {
		if len(part) >= 8 {
			hidden = append(hidden, part, "***")
		}
	}
	return strings.NewReplacer(hidden...).Replace
}

// failure returns the error for an answer, nil for 2xx. after is the delay until the next attempt as the body of the answer
// gives it; the Retry-After header is read too.
func (a answer) failure(after time.Duration) error {
	if a.code/100 == 2 {
		return nil
	}
	err := fmt.Errorf("it answered %s", a.status)
	if said := plainLine(a.hide(a.body), 100); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	if s, bad := strconv.Atoi(a.header.Get("Retry-After")); bad == nil && s > 0 {
		after = max(after, time.Duration(min(s, int(maxRetryDelay/time.Second)))*time.Second)
	} else if at, bad := http.ParseTime(a.header.Get("Retry-After")); bad == nil {
		after = max(after, time.Until(at))
	}
	switch {
	case a.code == http.StatusTooManyRequests, after > 0 && a.code == http.StatusServiceUnavailable:
		return retryLaterError{err, min(after, maxRetryDelay)}
	case a.code/100 == 5, a.code == http.StatusRequestTimeout:
		return err
	}
	return refusedError{err}
}

// slack posts to an incoming webhook. The text is in a plain_text block, in which nothing becomes a link, a mention or an
// emoji. For the text of the notification mrkdwn is off, and the three characters are escaped that have a meaning even then.
type slack struct{ urlEnv string }

func (s slack) send(ctx context.Context, n *Notifier, m message) error {
	address, err := n.secret(s.urlEnv)
	if err != nil {
		return err
	}
	type plainText struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Emoji bool   `json:"emoji"`
	}
	type section struct {
		Type string    `json:"type"`
		Text plainText `json:"text"`
	}
	words := truncate(m.title+"\n"+m.body(), 3000) // the limit of a block
	a, err := postJSON(ctx, address, struct {
		Text   string    `json:"text"`
		Blocks []section `json:"blocks"`
		Mrkdwn bool      `json:"mrkdwn"`
		Links  bool      `json:"unfurl_links"`
		Media  bool      `json:"unfurl_media"`
	}{Text: strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(truncate(m.title, 3000)),
		Blocks: []section{{"section", plainText{Type: "plain_text", Text: words}}}})
	if err != nil {
		return err
	}
	if err := a.failure(0); err != nil {
		return err
	}
	if strings.TrimSpace(a.body) != "ok" {
		return refusedError{fmt.Errorf("it answered %q, not ok", plainLine(a.hide(a.body), 100))}
	}
	return nil
}

// discord posts to a webhook. Mentions notify nobody, all punctuation is escaped, and links get no preview.
type discord struct{ urlEnv string }

const suppressEmbeds = 1 << 2

func (d discord) send(ctx context.Context, n *Notifier, m message) error {
	address, err := n.secret(d.urlEnv)
	if err != nil {
		return err
	}
	type mentions struct {
		Parse []string `json:"parse"`
	}
	a, err := postJSON(ctx, address, struct {
		Content  string   `json:"content"`
		Mentions mentions `json:"allowed_mentions"`
		Flags    int      `json:"flags"`
	}{discordText(m), mentions{[]string{}}, suppressEmbeds})
	if err != nil {
		return err
	}
	var limit struct {
		After float64 `json:"retry_after"` // seconds
	}
	_ = json.Unmarshal([]byte(a.body), &limit) // most answers are a different document
	return a.failure(time.Duration(min(max(limit.After, 0), maxRetryDelay.Seconds()) * float64(time.Second)))
}

// discordText returns a message of at most 2000 characters, in which only the link of a pull request is a link.
func discordText(m message) string {
	escaped := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if strings.ContainsRune("\\`*_{}[]()#+-.!|<>~:@", r) {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		return b.String()
	}
	whole := escaped(truncate(m.title+"\n"+m.body(), 900)) // escaping can double the length
	if m.link != "" {
		whole = strings.Replace(whole, escaped(m.link), "<"+m.link+">", 1)
	}
	return whole
}

// ntfy posts to a topic. The text is plain, and the title is an ASCII header.
type ntfy struct{ url, urlEnv, tokenEnv string }

func (t ntfy) send(ctx context.Context, n *Notifier, m message) (err error) {
	address := t.url
	if t.urlEnv != "" {
		if address, err = n.secret(t.urlEnv); err != nil {
			return err
		}
	}
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Title": {encodedWord(m.title)}}
	if m.urgent {
		header.Set("Priority", "high")
	}
	if m.link != "" {
		header.Set("Click", m.link)
	}
	if t.tokenEnv != "" {
		token, err := n.secret(t.tokenEnv)
		if err != nil {
			return err
		}
		header.Set("Authorization", "Bearer "+token)
	}
	a, err := post(ctx, address, []byte(truncate(text.OneLine(m.title)+"\n"+m.body(), 3500)), header)
	if err != nil {
		return err
	}
	return a.failure(0)
}
