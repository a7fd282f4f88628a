package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/taskdir"
)

// server is what a repository is on a Temporal server.
type server struct {
	client.Client
	config.Cluster
	silence time.Duration
}

// dial connects to the server that the settings of a project name.
func dial(ctx context.Context, a *command.Console, cfg *config.Config, identity string) (*server, error) {
	if cfg.Cluster.Repo == "" {
		return nil, app.WithHints(app.Usagef("nothing says what this repository is called on the Temporal server"), "trellis config set cluster.repo NAME")
	}
	o := client.Options{HostPort: cfg.Cluster.Address, Namespace: cfg.Cluster.Namespace, Identity: identity,
		Logger: log.NewStructuredLogger(slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))}
	if key := os.Getenv(account + "API_KEY"); key != "" {
		o.Credentials = client.NewAPIKeyStaticCredentials(key)
	}
	var err error
	if o.ConnectionOptions.TLS, err = certificates(); err != nil {
		return nil, err
	}
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, app.WithHints(fmt.Errorf("connecting to the Temporal server at %s: %w", cfg.Cluster.Address, err), "trellis doctor")
	}
	return &server{c, cfg.Cluster, max(cfg.Shared.Silence, leastSilence)}, nil
}

// leastSilence is the shortest in which a machine gets a word through to the server and to the remote.
const leastSilence = 2 * time.Second

// certificates are what the connection is secured with, by the variables that the temporal command has, too; nil: it is not.
func certificates() (*tls.Config, error) {
	ca, cert, key := os.Getenv(account+"TLS_SERVER_CA_CERT_PATH"), os.Getenv(account+"TLS_CLIENT_CERT_PATH"), os.Getenv(account+"TLS_CLIENT_KEY_PATH")
	if ca == "" && cert == "" && os.Getenv(account+"TLS") != "true" && os.Getenv(account+"API_KEY") == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: os.Getenv(account + "TLS_SERVER_NAME")}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, app.AsKind(app.ErrUsage, fmt.Errorf("reading the certificate for the Temporal server: %w", err))
		}
		t.Certificates = []tls.Certificate{pair}
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, app.AsKind(app.ErrUsage, fmt.Errorf("reading who vouches for the Temporal server: %w", err))
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, app.Usagef("%s holds no certificate", ca)
		}
	}
	return t, nil
}

// workflow is the id of the workflow of a task: there is one at a time, whoever starts it.
func (s *server) workflow(task string) string { return s.Repo + "/" + task }

// queue is where machines wait that can run tasks which name an agent, or none.
func (s *server) queue(agent string) string {
	if agent == "" {
		return s.Repo
	}
	return s.Repo + "/" + agent
}

// ownQueue is where only one checkout waits, for tasks that it had last.
func (s *server) ownQueue(host, clone string) string {
	return fmt.Sprintf("%s@%s.%.6s", s.Repo, host, clone)
}

// owned reports whether a queue is one checkout's own.
func (s *server) owned(queue string) bool { return strings.HasPrefix(queue, s.Repo+"@") }

func (s *server) given(t *taskdir.Task) Given {
	return Given{Task: t.ID, Queue: s.queue(t.Pipeline.Agent), Silence: s.silence, Prefer: s.PreferLast}
}

func (s *server) options(task string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: s.workflow(task), TaskQueue: s.Repo, WorkflowExecutionErrorWhenAlreadyStarted: true}
}

// start hands a task out. *runner.ElsewhereError or an error of the kind locked: it was handed out before, and is not at an end.
func (s *server) start(ctx context.Context, t *taskdir.Task) error {
	for {
		_, err := s.ExecuteWorkflow(ctx, s.options(t.ID), taskType, s.given(t))
		if !errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
			return s.failed("handing out", t.ID, err)
		}
		if err := s.free(ctx, t.ID); err != nil {
			return err
		} // else it came to its end in between
	}
}

// goOn has machines look at a task again, and hands it out if it is not.
func (s *server) goOn(ctx context.Context, t *taskdir.Task) error {
	_, err := s.SignalWithStartWorkflow(ctx, s.workflow(t.ID), wakeSignal, nil, s.options(t.ID), taskType, s.given(t))
	return s.failed("handing out", t.ID, err)
}

// wake has machines look at a task again, if it is handed out.
func (s *server) wake(ctx context.Context, task string) error {
	err := s.SignalWorkflow(ctx, s.workflow(task), "", wakeSignal, nil)
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil
	}
	return s.failed("waking", task, err)
}

func (s *server) failed(doing, task string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s by the Temporal server: %w", doing, task, err)
}

// free is nil when a task is not handed out, and else says who has it.
func (s *server) free(ctx context.Context, task string) error {
	h, err := s.handed(ctx, task)
	if err != nil || h == nil {
		return err
	}
	if h.Host != "" {
		return &runner.ElsewhereError{Task: task, Host: h.Host, Since: h.Since}
	}
	return app.AsKind(app.ErrLocked, fmt.Errorf("%s is handed out already: %s", task, h.words()))
}

// hostOf is the machine in the identity of a worker.
func hostOf(identity string) string {
	host, _, _ := strings.Cut(identity, " ")
	return host
}
