package mcpserver

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/internal/app"
)

// If the client leaves while an order is carried out, the server ends only after the order has ended.
func TestOrderOutlivesItsClient(t *testing.T) {
	s := New(Options{Tools: Read})
	theirs, ours := mcp.NewInMemoryTransports()
	over := make(chan error, 1)
	go func() { over <- s.Run(t.Context(), ours) }()
	var ended atomic.Bool
	begun, end := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = s.carryOut(t.Context(), func(context.Context) (app.OrderResult, error) {
			close(begun)
			<-end
			ended.Store(true)
			return app.OrderResult{}, nil
		})
	}()
	<-begun
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), theirs, nil)
	if err == nil {
		err = client.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-over:
		t.Errorf("the server ended (%v) while an order was carried out", err)
	case <-time.After(200 * time.Millisecond):
	}
	close(end)
	if err := <-over; err != nil || !ended.Load() {
		t.Errorf("got %v, ended %v", err, ended.Load())
	}
}
