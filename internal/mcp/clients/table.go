package clients

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// table is codex's file of TOML, which has a table for each server.
type table struct{}

const servers = "mcp_servers"

func (table) entry(command []string) string {
	var args []string
	for _, a := range command[1:] {
		args = append(args, quoted(a))
	}
	return fmt.Sprintf("[%s.%s]\ncommand = %s\nargs = [%s]\n", servers, server, quoted(command[0]), strings.Join(args, ", "))
}

// quoted is a text as TOML has it.
func quoted(s string) string {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(map[string]string{"s": s}); err != nil {
		panic(err) // a string
	}
	return strings.TrimSpace(strings.TrimPrefix(b.String(), "s = "))
}

// header is the line that begins the server's own table, or one below it.
var header = regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*mcp_servers[ \t]*\.[ \t]*"?trellis"?[ \t]*(\..*)?\].*$`)

// inline is a table of servers in one line, to which TOML lets nobody add.
var inline = regexp.MustCompile(`(?m)^[ \t]*mcp_servers[ \t]*=`)

// next is the line that begins a table.
var next = regexp.MustCompile(`(?m)^[ \t]*\[`)

func (table) read(file []byte) (string, error) {
	all, err := values(file)
	if err != nil {
		return "", err
	}
	group, is := all[servers].(map[string]any)
	if all[servers] != nil && !is {
		return "", fmt.Errorf("%s in it is no table", servers)
	}
	if group[server] == nil {
		return "", nil
	}
	at := header.FindIndex(file)
	if at == nil {
		return "", fmt.Errorf("%s.%s is not a table of its own there, and stays: change it by hand", servers, server)
	}
	return string(file[at[0]:tableEnd(file, at[1])]), nil
}

// tableEnd is where a table ends that has its header before from: behind the last line of it that is no comment.
func tableEnd(file []byte, from int) int {
	last := len(file)
	if more := next.FindIndex(file[from:]); more != nil {
		last = from + more[0]
	}
	at, end := from, from
	for line := range bytes.Lines(file[from:last]) {
		at += len(line)
		if said := bytes.TrimSpace(line); end == from || len(said) > 0 && said[0] != '#' { // the first one ends the header
			end = at
		}
	}
	return end
}

func values(file []byte) (all map[string]any, err error) {
	if err := toml.Unmarshal(file, &all); err != nil {
		return nil, fmt.Errorf("it is not TOML: %w", err)
	}
	return all, nil
}

func (table) add(file []byte, entry string) ([]byte, error) {
	if file == nil {
		return []byte(entry), nil
	}
	if inline.Match(file) {
		return nil, fmt.Errorf("%s stands in one line there, which has no place for a table %s.%s: add it by hand", servers, servers, server)
	}
	return append(append(bytes.Clone(file), '\n'), entry...), nil
}

func (t table) remove(file []byte, entry string) ([]byte, error) {
	if string(file) == entry {
		return nil, nil
	}
	if at := bytes.LastIndex(file, []byte("\n"+entry)); at >= 0 {
		if now, _ := cut(file, at, "\n"+entry); sameBut(file, now) == nil {
			return now, nil
		}
	}
	now := bytes.Clone(file)
	for at := header.FindIndex(now); at != nil; at = header.FindIndex(now) { // with tables below it
		now, _ = cut(now, at[0], string(now[at[0]:tableEnd(now, at[1])]))
	}
	return now, sameBut(file, now)
}

var errStays = fmt.Errorf("[%s.%s] can't be taken out alone, and stays: change it by hand", servers, server)

// sameBut makes sure that a file says now what it said, without the server.
func sameBut(file, now []byte) error {
	was, err := values(file)
	is, nowErr := values(now)
	if err := errors.Join(err, nowErr); err != nil {
		return err
	}
	group, _ := was[servers].(map[string]any)
	delete(group, server)
	for _, all := range []map[string]any{was, is} {
		if group, there := all[servers].(map[string]any); there && len(group) == 0 {
			delete(all, servers)
		}
	}
	if !reflect.DeepEqual(was, is) {
		return errStays
	}
	return nil
}
