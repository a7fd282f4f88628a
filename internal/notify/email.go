package notify

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/textproto"
	"strconv"

	"github.com/wneessen/go-mail"

	"github.com/trellis-tasks/trellis/internal/config"
)

// encodedWord is a text as a header of ASCII holds it.
func encodedWord(s string) string { return mime.QEncoding.Encode("utf-8", s) }

// email sends plain text by SMTP, over TLS or not at all.
type email struct{ config.Notify }

func (e email) send(ctx context.Context, n *Notifier, m message) error {
	letter, err := e.letter(m, n)
	if err != nil {
		return refused{err}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := e.client(ctx, n)
	if err != nil {
		return err
	}
	if err := client.DialWithContext(ctx); err != nil {
		var no *textproto.Error
		if errors.As(err, &no) && no.Code >= 500 { // the sign-in, say: trying it again can lock an account
			return refused{err}
		}
		return unreachable{err}
	}
	defer client.Close()
	err = client.Send(letter)
	var failed *mail.SendError
	switch {
	case err == nil:
		return nil
	case letter.IsDelivered():
		return nil // and the connection was lost after that
	case errors.As(err, &failed) && !failed.IsTemp() && failed.ErrorCode() >= 500:
		return refused{err}
	case errors.As(err, &failed) && failed.Reason == mail.ErrSMTPDataClose && failed.ErrorCode() == 0:
		return uncertain{err}
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

// client makes a client. Its connection ends with ctx, in whatever the server keeps it waiting, but for one that is TLS from the
// first byte, which its own time ends.
func (e email) client(ctx context.Context, n *Notifier) (*mail.Client, error) {
	host, service, err := net.SplitHostPort(e.Server)
	if err != nil {
		return nil, fmt.Errorf("reading server: %w", err)
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, fmt.Errorf("reading server: port %q is no number", service)
	}
	options := []mail.Option{mail.WithPort(port), mail.WithTimeout(patience), mail.WithTLSPolicy(mail.TLSMandatory)}
	if e.TLS == "tls" {
		options = append(options, mail.WithSSL()) // with a dialer of ours the library would take the connection for a plain one
	} else {
		options = append(options, mail.WithDialContextFunc(func(dialing context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(dialing, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { c.Close() })
			}
			return c, err
		}))
	}
	if e.User != "" {
		password, err := n.secret(e.PasswordEnv)
		if err != nil {
			return nil, err
		}
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(e.User), mail.WithPassword(password))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return nil, fmt.Errorf("preparing the mail: %w", err)
	}
	return client, nil
}
