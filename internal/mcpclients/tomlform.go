package mcpclients

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// tomlForm is TOML, with the server as a table at the end.
type tomlForm struct{}

const tomlKey = "mcp_servers"

func (f tomlForm) add(old []byte, command []string) (now []byte, added string, there bool, err error) {
	doc, err := f.decode(old)
	if err != nil {
		return nil, "", false, err
	}
	servers, is := doc[tomlKey].(map[string]any)
	if doc[tomlKey] != nil && !is {
		return nil, "", false, fmt.Errorf("%s is not a table in it", tomlKey)
	}
	if servers[serverName] != nil {
		return old, "", true, nil
	}
	if regexp.MustCompile(tomlInline).Match(old) {
		return nil, "", false, fmt.Errorf("%s is written in one line in it, which no table can be added to", tomlKey)
	}
	var args []string
	for _, arg := range command[1:] {
		args = append(args, quoteTOML(arg))
	}
	added = fmt.Sprintf("[%s.%s]\ncommand = %s\nargs = [%s]\n", tomlKey, serverName, quoteTOML(command[0]), strings.Join(args, ", "))
	if len(old) > 0 {
		added = "\n" + added
	}
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		added = "\n" + added
	}
	if bytes.Contains(old, []byte("\r\n")) {
		added = strings.ReplaceAll(added, "\n", "\r\n")
	}
	now = append(bytes.Clone(old), added...)
	return now, added, false, checkUnchanged(f, now, old)
}

// quoteTOML quotes a basic string. Go's other escapes don't occur in paths and flags, and checkUnchanged would reject them.
func quoteTOML(s string) string { return strconv.Quote(s) }

// tomlHeader matches the header of a table; its group matches in [mcp_servers.trellis] and the tables below it.
const tomlHeader = `^[ \t]*\[(?:[ \t]*["']?` + tomlKey + `["']?[ \t]*\.[ \t]*["']?(` + serverName + `)["']?[ \t]*[.\]])?`

// tomlInline matches a line that sets all servers at once.
const tomlInline = `(?m)^[ \t]*["']?` + tomlKey + `["']?[ \t]*=`

// remove removes the server's table and the tables below it. Comments after its last key are kept: they belong to what follows.
func (f tomlForm) remove(old []byte) (now []byte, there bool, err error) {
	doc, err := f.decode(old)
	if err != nil {
		return nil, false, err
	}
	servers, is := doc[tomlKey].(map[string]any)
	if !is || servers[serverName] == nil {
		return old, false, nil
	}
	header, ours := regexp.MustCompile(tomlHeader), false
	var trailing []byte // blank lines and comments after the server's last key
	for line := range bytes.Lines(old) {
		if m := header.FindSubmatch(line); m != nil {
			if ours && m[1] == nil {
				now = append(now, linesWithComments(trailing)...)
			}
			ours, trailing = m[1] != nil, nil
		}
		switch text := bytes.TrimSpace(line); {
		case !ours:
			now = append(now, line...)
		case len(text) == 0 || text[0] == '#':
			trailing = append(trailing, line...)
		default:
			trailing = nil
		}
	}
	if ours {
		now = append(now, linesWithComments(trailing)...)
	}
	return now, true, checkUnchanged(f, old, now)
}

// linesWithComments returns lines, which are blank or comments, if there is a comment in them.
func linesWithComments(lines []byte) []byte {
	if bytes.ContainsRune(lines, '#') {
		return lines
	}
	return nil
}

func (tomlForm) key() string { return tomlKey }

func (tomlForm) decode(data []byte) (map[string]any, error) {
	doc := map[string]any{}
	_, err := toml.Decode(string(data), &doc)
	if at, ok := errors.AsType[toml.ParseError](err); ok {
		return nil, fmt.Errorf("line %d: %s", at.Position.Line, at.Message)
	}
	return doc, err
}
