package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/internal/mcpserver"
)

// A line that is not a message gets an error as its answer, and the lines after it are handled.
func TestLinesThatAreNoMessages(t *testing.T) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcpserver.New(newWorld(t, nil).options(mcpserver.Read)).Patient().Run(context.Background(), mcpserver.Stdio(in, out))
		out.Close()
	}()
	answers := bufio.NewScanner(fromServer)
	for _, test := range []struct {
		line, id string
		code     int
	}{
		{"hello\n", "null", -32700},
		{`{"jsonrpc": "2.0", "id": 1, ` + "\n", "null", -32700},
		{strings.Repeat("x", mcp.DefaultMaxLineLength+1) + "\n", "null", -32600},
		{"{}\n", "null", -32600},
		{"[]\n", "null", -32600},
		{"[7]\n", "null", -32600},
		{"\n\r\n" + `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}` + "\r\n", "1", 0},
		{`{"jsonrpc": "2.0", "method": "notifications/initialized"}` + "\n" + `{"jsonrpc": "2.0", "id": 2, "method": "no/such"}` + "\n", "2", -32601},
		{"}{\n", "null", -32700},
		{`{"jsonrpc": "2.0", "id": 3, "method": "ping"}` + "\n", "3", 0},
	} {
		if _, err := io.WriteString(toServer, test.line); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("%.80q: the server ended: %v, %v", test.line, answers.Err(), <-ended)
		}
		var got struct {
			ID    json.RawMessage
			Error struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(answers.Bytes(), &got); err != nil || string(got.ID) != test.id || got.Error.Code != test.code || test.code != 0 && got.Error.Message == "" {
			t.Errorf("%.80q: got %s, %v, want code %d for %s", test.line, answers.Bytes(), err, test.code, test.id)
		}
	}
	toServer.Close()
	if answers.Scan() {
		t.Errorf("got %s after the end", answers.Bytes())
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
