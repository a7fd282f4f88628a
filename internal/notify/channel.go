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

// channel brings messages to people. An error of send is one of unreachable, later, refused and uncertain, or any other
// when the message did not arrive and may be tried again.
type channel interface {
	send(ctx context.Context, n *Notifier, m message) error
}

// later is that a server wants to be left alone for a time.
type later struct {
	error
	after time.Duration
}

// refused is that a server will never take this message.
type refused struct{ error }

// uncertain is that a message may have arrived: it is not sent again.
type uncertain struct{ error }

// maxLater bounds how long a server may ask to be left alone.
const maxLater = time.Hour

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

// secret is the value of an environment variable that the settings name.
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

// postJSON posts a document to an address that may be a secret, and returns what was answered.
func postJSON(ctx context.Context, address string, document any) (answer, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return answer{}, fmt.Errorf("encoding the message: %w", err)
	}
	return post(ctx, address, body, http.Header{"Content-Type": {"application/json"}})
}

// answer is what a server said.
type answer struct {
	status string
	code   int
	body   string
	header http.Header
	hide   func(string) string // takes the address out of a text
}

// post is one attempt. Redirects are not followed: a message is for the host that was named.
func post(ctx context.Context, address string, body []byte, header http.Header) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, hookWait)
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
	var with *url.Error // has the whole address in its text
	if errors.As(err, &with) {
		err = with.Err
	}
	switch {
	case err != nil && written.Load():
		return answer{}, uncertain{err}
	case err != nil:
		return answer{}, unreachable{err}
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return answer{res.Status, res.StatusCode, string(said), res.Header, hider(u)}, nil
}

// hider takes an address and the parts of it that may be secret out of a text.
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

// failure is the error that an answer means; nil for 2xx. after is when a server says besides its header that it may be
// asked again.
func (a answer) failure(after time.Duration) error {
	if a.code/100 == 2 {
		return nil
	}
	err := fmt.Errorf("it answered %s", a.status)
	if said := plain(a.hide(a.body), 100); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	if s, bad := strconv.Atoi(a.header.Get("Retry-After")); bad == nil && s > 0 {
		after = max(after, time.Duration(min(s, int(maxLater/time.Second)))*time.Second)
	} else if at, bad := http.ParseTime(a.header.Get("Retry-After")); bad == nil {
		after = max(after, time.Until(at))
	}
	switch {
	case a.code == http.StatusTooManyRequests, after > 0 && a.code == http.StatusServiceUnavailable:
		return later{err, min(after, maxLater)}
	case a.code/100 == 5, a.code == http.StatusRequestTimeout:
		return err
	}
	return refused{err}
}

// slack posts to an incoming webhook. The text is in a block that is plain, where nothing is a link, a mention or an emoji. What a
// notification shows beside it has mrkdwn off and the three characters escaped that mean something all the same.
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
	words := bounded(m.title+"\n"+m.body(), 3000) // no block holds more
	a, err := postJSON(ctx, address, struct {
		Text   string    `json:"text"`
		Blocks []section `json:"blocks"`
		Mrkdwn bool      `json:"mrkdwn"`
		Links  bool      `json:"unfurl_links"`
		Media  bool      `json:"unfurl_media"`
	}{Text: strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(bounded(m.title, 3000)),
		Blocks: []section{{"section", plainText{Type: "plain_text", Text: words}}}})
	if err != nil {
		return err
	}
	if err := a.failure(0); err != nil {
		return err
	}
	if strings.TrimSpace(a.body) != "ok" {
		return refused{fmt.Errorf("it answered %q, not ok", plain(a.hide(a.body), 100))}
	}
	return nil
}

// discord posts to a webhook. Whoever it mentions is not told, every punctuation mark is escaped, and addresses have no preview.
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
	_ = json.Unmarshal([]byte(a.body), &limit) // most answers are another document
	return a.failure(time.Duration(min(max(limit.After, 0), maxLater.Seconds()) * float64(time.Second)))
}

// discordText is a message of at most 2000 characters, in which only the link of a pull request is more than text.
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
	whole := escaped(bounded(m.title+"\n"+m.body(), 900)) // twice as long when all of it is escaped
	if m.link != "" {
		whole = strings.Replace(whole, escaped(m.link), "<"+m.link+">", 1)
	}
	return whole
}

// ntfy posts to a topic. The text is plain, and the title is a header of ASCII.
type ntfy struct{ url, urlEnv, tokenEnv string }

func (t ntfy) send(ctx context.Context, n *Notifier, m message) (err error) {
	address := t.url
	if t.urlEnv != "" {
		if address, err = n.secret(t.urlEnv); err != nil {
			return err
		}
	}
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Title": {encodedWord(m.title)}}
	if m.grave {
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
	a, err := post(ctx, address, []byte(bounded(text.OneLine(m.title)+"\n"+m.body(), 3500)), header)
	if err != nil {
		return err
	}
	return a.failure(0)
}
