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

// server is a repository on a Temporal server.
type server struct {
	client.Client
	config.Cluster
	silence time.Duration
}

// dial connects to the server that the project's settings name.
func dial(ctx context.Context, a *command.Console, cfg *config.Config, identity string) (*server, error) {
	if cfg.Cluster.Repo == "" {
		return nil, app.WithHints(app.Usagef("nothing says what this repository is called on the Temporal server"), "trellis config set cluster.repo NAME")
	}
	o := client.Options{HostPort: cfg.Cluster.Address, Namespace: cfg.Cluster.Namespace, Identity: identity,
		Logger: log.NewStructuredLogger(slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))}
	if key := os.Getenv(accountPrefix + "API_KEY"); key != "" {
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
	return &server{c, cfg.Cluster, max(cfg.Shared.Silence, minSilence)}, nil
}

// minSilence is the shortest time in which a machine reliably reaches the server and the remote.
const minSilence = 2 * time.Second

// certificates returns the TLS settings, from the variables that the temporal command uses too; nil means a connection without
// TLS.
func certificates() (*tls.Config, error) {
	ca, cert, key := os.Getenv(accountPrefix+"TLS_SERVER_CA_CERT_PATH"), os.Getenv(accountPrefix+"TLS_CLIENT_CERT_PATH"), os.Getenv(accountPrefix+"TLS_CLIENT_KEY_PATH")
	if ca == "" && cert == "" && os.Getenv(accountPrefix+"TLS") != "true" && os.Getenv(accountPrefix+"API_KEY") == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: os.Getenv(accountPrefix + "TLS_SERVER_NAME")}
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

// workflowID returns the workflow id of a task. There is one workflow at a time, no matter who starts it.
func (s *server) workflowID(task string) string { return s.Repo + "/" + task }

// queue returns the queue for tasks that name the given agent, or that name none if agent is "".
func (s *server) queue(agent string) string {
	if agent == "" {
		return s.Repo
	}
	return s.Repo + "/" + agent
}

// ownQueue returns the queue of a single checkout, for tasks that it had last.
func (s *server) ownQueue(host, clone string) string {
	return fmt.Sprintf("%s@%s.%.6s", s.Repo, host, clone)
}

// isOwnQueue reports whether a queue is that of a single checkout.
func (s *server) isOwnQueue(queue string) bool { return strings.HasPrefix(queue, s.Repo+"@") }

func (s *server) taskInput(t *taskdir.Task) Given {
	return Given{Task: t.ID, Queue: s.queue(t.Pipeline.Agent), Silence: s.silence, Prefer: s.PreferLast}
}

func (s *server) options(task string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: s.workflowID(task), TaskQueue: s.Repo, WorkflowExecutionErrorWhenAlreadyStarted: true}
}

// start hands a task out. It returns a *runner.OtherMachineError or an error of kind locked if the task is handed out already and
// has not ended.
func (s *server) start(ctx context.Context, t *taskdir.Task) error {
	for {
		_, err := s.ExecuteWorkflow(ctx, s.options(t.ID), taskType, s.taskInput(t))
		if !errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
			return s.wrapError("handing out", t.ID, err)
		}
		if err := s.checkFree(ctx, t.ID); err != nil {
			return err
		} // it has ended in the meantime: try again
	}
}

// wakeOrStart has machines check a task again. If it is not handed out, wakeOrStart hands it out.
func (s *server) wakeOrStart(ctx context.Context, t *taskdir.Task) error {
	_, err := s.SignalWithStartWorkflow(ctx, s.workflowID(t.ID), wakeSignal, nil, s.options(t.ID), taskType, s.taskInput(t))
	return s.wrapError("handing out", t.ID, err)
}

// wake has machines check a task again, if it is handed out.
func (s *server) wake(ctx context.Context, task string) error {
	err := s.SignalWorkflow(ctx, s.workflowID(task), "", wakeSignal, nil)
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil
	}
	return s.wrapError("waking", task, err)
}

func (s *server) wrapError(doing, task string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s by the Temporal server: %w", doing, task, err)
}

// checkFree returns nil if a task is not handed out, and an error that says who has it otherwise.
func (s *server) checkFree(ctx context.Context, task string) error {
	h, err := s.findTask(ctx, task)
	if err != nil || h == nil {
		return err
	}
	if h.Host != "" {
		return &runner.OtherMachineError{Task: task, Host: h.Host, Since: h.Since}
	}
	return app.AsKind(app.ErrLocked, fmt.Errorf("%s is handed out already: %s", task, h.description()))
}

// hostOf returns the host in the identity of a worker.
func hostOf(identity string) string {
	host, _, _ := strings.Cut(identity, " ")
	return host
}
