package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/trellis-tasks/trellis/internal/config"
)

// encodedWord encodes a text for an ASCII header.
func encodedWord(s string) string { return mime.QEncoding.Encode("utf-8", s) }

// email sends plain text by SMTP, only over TLS.
type email struct{ config.Notify }

func (e email) send(ctx context.Context, n *Notifier, m message) error {
	letter, err := e.letter(m, n)
	if err != nil {
		return refusedError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	client, err := e.newClient(ctx, n)
	if err != nil {
		return err
	}
	if err := client.DialWithContext(ctx); err != nil {
		var no *textproto.Error
		if errors.As(err, &no) && no.Code >= 500 { // e.g. the sign-in, which may lock the account when repeated
			return refusedError{err}
		}
		return unreachableError{err}
	}
	defer client.Close()
	err = client.Send(letter)
	var failed *mail.SendError
	switch {
	case err == nil:
		return nil
	case letter.IsDelivered():
		return nil // the connection was lost after that
	case errors.As(err, &failed) && !failed.IsTemp() && failed.ErrorCode() >= 500:
		return refusedError{err}
	case errors.As(err, &failed) && failed.Reason == mail.ErrSMTPDataClose && failed.ErrorCode() == 0:
		return uncertainError{err}
	}
	return err
}

func (e email) letter(m message, n *Notifier) (*mail.Msg, error) {
	letter := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := letter.From(e.From); err != nil {
		return nil, fmt.Errorf("reading from: %w", err)
	}
	if err := letter.To(e.To...); err != nil {
		return nil, fmt.Errorf("reading to: %w", err)
	}
	letter.Subject(m.title)
	letter.SetMessageIDWithValue(m.id + "@trellis.invalid")
	letter.SetDateWithValue(n.Now())
	letter.SetGenHeader("Auto-Submitted", "auto-generated")
	letter.SetBodyString(mail.TypeTextPlain, m.body()+"\n")
	return letter, nil
}

// newClient returns a client whose connection is closed when ctx ends, whatever the server is doing then.
func (e email) newClient(ctx context.Context, n *Notifier) (*mail.Client, error) {
	host, service, err := net.SplitHostPort(e.Server)
	if err != nil {
		return nil, fmt.Errorf("reading server: %w", err)
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, fmt.Errorf("reading server: port %q is not a number", service)
	}
	dial := func(dialing context.Context, network, address string) (net.Conn, error) {
		wire, err := new(net.Dialer).DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { wire.Close() })
		if e.TLS == "tls" {
			return tls.Client(wire, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}), nil
		}
		return wire, nil
	}
	options := []mail.Option{mail.WithPort(port), mail.WithTimeout(hookTimeout), mail.WithTLSPolicy(mail.TLSMandatory), mail.WithDialContextFunc(dial)}
	if e.TLS == "tls" {
		options = append(options, mail.WithSSL())
	}
	if e.User != "" {
		password, err := n.secret(e.PasswordEnv)
		if err != nil {
			return nil, err
		}
		options = append(options, mail.WithSMTPAuthCustom(&strongestAuth{user: e.User, password: password, host: host}))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return nil, fmt.Errorf("preparing the mail: %w", err)
	}
	return client, nil
}

// strongestAuth signs in with the strongest mechanism that a server offers. The library could choose too, but takes a connection
// from a custom dialer for an unencrypted one.
type strongestAuth struct {
	user, password, host string
	smtp.Auth            // the chosen mechanism
}

func (s *strongestAuth) Start(server *smtp.ServerInfo) (string, []byte, error) {
	for _, way := range []struct {
		name string
		make func() smtp.Auth
	}{
		{"SCRAM-SHA-256", func() smtp.Auth { return smtp.ScramSHA256Auth(s.user, s.password) }},
		{"SCRAM-SHA-1", func() smtp.Auth { return smtp.ScramSHA1Auth(s.user, s.password) }},
		{"NTLM", func() smtp.Auth { return smtp.NTLMAuth(s.user, s.password, "") }},
		{"CRAM-MD5", func() smtp.Auth { return smtp.CRAMMD5Auth(s.user, s.password) }},
		{"PLAIN", func() smtp.Auth { return smtp.PlainAuth("", s.user, s.password, s.host, false) }},
		{"LOGIN", func() smtp.Auth { return smtp.LoginAuth(s.user, s.password, s.host, false) }},
	} {
		if slices.Contains(server.Auth, way.name) {
			s.Auth = way.make()
			return s.Auth.Start(server)
		}
	}
	return "", nil, fmt.Errorf("the server offers no way to sign in that is known here: %s", strings.Join(server.Auth, " "))
}
