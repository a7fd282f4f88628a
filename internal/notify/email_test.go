package notify_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"mime"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// post is a mail server where ann can sign in with a password, over TLS only.
type post struct {
	mechanisms []string
	refuse     *smtp.SMTPError // the answer to each letter; nil if it is accepted
	mu         sync.Mutex
	got        []string
	user       string
}

func (p *post) NewSession(*smtp.Conn) (smtp.Session, error) { return &letterbox{post: p}, nil }

type letterbox struct {
	post *post
	in   bool
}

func (l *letterbox) AuthMechanisms() []string { return l.post.mechanisms }

func (l *letterbox) Auth(mechanism string) (sasl.Server, error) {
	check := func(user, password string) error {
		if user != "ann" || password != "pa55word-secret" {
			return errors.New("wrong")
		}
		l.in, l.post.user = true, user
		return nil
	}
	if mechanism == sasl.Login {
		return &login{check: check}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
}

// login is the server's side of AUTH LOGIN.
type login struct {
	check func(user, password string) error
	user  *string
	asked bool
}

func (l *login) Next(response []byte) (challenge []byte, done bool, err error) {
	switch said := string(response); {
	case !l.asked:
		l.asked = true
		return []byte("Username:"), false, nil
	case l.user == nil:
		l.user = &said
		return []byte("Password:"), false, nil
	default:
		return nil, true, l.check(*l.user, said)
	}
}

func (l *letterbox) Mail(string, *smtp.MailOptions) error {
	if !l.in {
		return smtp.ErrAuthRequired
	}
	return nil
}
func (l *letterbox) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (l *letterbox) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if l.post.refuse != nil {
		return l.post.refuse
	}
	l.post.mu.Lock()
	defer l.post.mu.Unlock()
	l.post.got = append(l.post.got, string(text))
	return nil
}
func (l *letterbox) Reset()        {}
func (l *letterbox) Logout() error { return nil }

// certificate is for 127.0.0.1. This process trusts it, as SSL_CERT_FILE is read when the first certificate is verified.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	raw, err := x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "notify-ca-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", file)
	parsed, _ := x509.ParseCertificate(raw)
	if _, err := parsed.Verify(x509.VerifyOptions{}); err != nil { // reads SSL_CERT_FILE
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
})

// newPost starts a mail server, and returns the settings by which somebody is notified through it.
func newPost(t *testing.T, p *post, way string) config.Notify {
	s := smtp.NewServer(p)
	s.Domain, s.ErrorLog = "127.0.0.1", log.New(io.Discard, "", 0)
	if way != "none" {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate()}}
	} else {
		s.AllowInsecureAuth = true
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if way == "tls" {
		l = tls.NewListener(l, s.TLSConfig)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	c := config.Notify{Kind: "email", On: config.Topics, Server: address, User: "ann", PasswordEnv: "SMTP_PASSWORD", From: "bot@trellis.example", To: []string{"ann@trellis.example", "bo@trellis.example"}}
	if way == "tls" {
		c.TLS = "tls"
	}
	return c
}

func smtpPassword(name string) string {
	return map[string]string{"SMTP_PASSWORD": "pa55word-secret", "WRONG": "other-secret"}[name]
}

// A letter is plain text to which a title can add no header, with each kind of TLS and of signing in.
func TestEmail(t *testing.T) {
	for _, way := range []string{"starttls", "tls"} {
		for _, mechanism := range []string{sasl.Plain, sasl.Login} {
			t.Run(way+" "+mechanism, func(t *testing.T) {
				h, p := newHouse(t), &post{mechanisms: []string{mechanism}}
				c := newPost(t, p, way)
				h.write("task.json", `{"title": "Log in ü\r\nBcc: evil@evil.example\r\n\r\n<b>hi</b>", "status": "in_progress", "pipeline": {"revision": 3}}`)
				n := h.teller(c)
				n.Getenv = smtpPassword
				h.becomes(n, trellis.Failed)
				n.Close(15 * time.Minute)
				if len(p.got) != 1 {
					t.Fatalf("got %q\n%s\n%s", p.got, h.said, h.book())
				}
				m, err := mail.ReadMessage(strings.NewReader(p.got[0]))
				if err != nil {
					t.Fatal(err)
				}
				subject, _ := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
				if subject != "Trellis: Log in ü Bcc: evil@evil.example <b>hi</b>: failed" || m.Header.Get("Bcc") != "" || p.user != "ann" {
					t.Errorf("%s as %q:\n%s", subject, p.user, p.got[0])
				}
				if !strings.HasPrefix(m.Header.Get("Content-Type"), "text/plain") || m.Header.Get("Auto-Submitted") != "auto-generated" || !strings.Contains(p.got[0], "next: trellis status 02-01-auth") {
					t.Errorf("letter:\n%s", p.got[0])
				}
			})
		}
	}
}

// Neither a password nor a letter is sent to a server without TLS, and neither is in an error.
func TestEmailOnlyByTLS(t *testing.T) {
	h, p := newHouse(t), &post{mechanisms: []string{sasl.Plain}}
	c := newPost(t, p, "none")
	n := h.teller(c)
	n.Getenv = smtpPassword
	err := n.Test(context.Background(), c)
	if err == nil || !strings.Contains(err.Error(), "STARTTLS") || p.user != "" || len(p.got) > 0 {
		t.Errorf("%v, signed in %q, got %q", err, p.user, p.got)
	}
	c = newPost(t, p, "starttls")
	c.PasswordEnv = "WRONG"
	if err := n.Test(context.Background(), c); err == nil || strings.Contains(err.Error(), "other-secret") {
		t.Errorf("wrong password: %v", err)
	}
	c.PasswordEnv = "UNSET"
	if err := n.Test(context.Background(), c); err == nil || err.Error() != "$UNSET is not set" {
		t.Errorf("no password: %v", err)
	}
}

// A letter that a server refuses for good is dropped at once; one that it may accept later is tried again.
func TestEmailRefused(t *testing.T) {
	for code, tries := range map[int]string{550: "dropped", 451: "failed"} {
		h, p := newHouse(t), &post{mechanisms: []string{sasl.Plain}, refuse: &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 7, 1}, Message: "not now"}}
		n := h.teller(newPost(t, p, "starttls"))
		n.Getenv = smtpPassword
		h.becomes(n, trellis.Failed)
		n.Close(15 * time.Minute)
		if !strings.Contains(h.book(), `"kind":"`+tries+`"`) || len(h.said) != 1 || !strings.Contains(h.said[0], "not now") {
			t.Errorf("%d: said %q\n%s", code, h.said, h.book())
		}
	}
}

// A mail server that accepts the connection and then stays silent, at whatever step, holds nobody up.
func TestSilentMailServer(t *testing.T) {
	for _, way := range []string{"starttls", "tls", "tls after the handshake"} {
		t.Run(way, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if way == "tls after the handshake" {
				l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate()}})
			}
			asked, over := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(over)
				c, err := l.Accept()
				if err != nil {
					return
				}
				if c, is := c.(*tls.Conn); is {
					_ = c.Handshake()
				}
				close(asked)
				_, _ = io.Copy(io.Discard, c) // until the client disconnects
				c.Close()
			}()
			c := config.Notify{Kind: "email", On: config.Topics, Server: l.Addr().String(), User: "ann", PasswordEnv: "SMTP_PASSWORD", From: "bot@trellis.example", To: []string{"ann@trellis.example"}}
			if way != "starttls" {
				c.TLS = "tls"
			}
			h := newHouse(t)
			n := h.teller(c)
			n.Getenv = smtpPassword
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				<-asked
				cancel()
			}()
			begun := time.Now()
			if err := n.Test(ctx, c); err == nil {
				t.Error("no error of a server that says nothing")
			}
			if took := time.Since(begun); took > 15*time.Second {
				t.Errorf("held up for %v after the sending was called off", took)
			}
			<-over
		})
	}
}
