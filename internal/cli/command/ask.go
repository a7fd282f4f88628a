package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Ask reads the line that a person types in answer to a question. At the end of the input the error
// is io.EOF, and after Ctrl-C that of the context, even while nothing is typed.
func (c *Console) Ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(c.Stderr, trellis.VisibleLine("trellis: "+question)+" ")
	type answer struct {
		line string
		err  error
	}
	typed := make(chan answer, 1)
	go func() { // reading a terminal ends with a line, even if ctx is done before
		line, err := bufio.NewReader(io.LimitReader(c.Stdin, maxAnswer)).ReadString('\n')
		typed <- answer{line, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(c.Stderr)
		return "", ctx.Err()
	case a := <-typed:
		if a.line == "" && a.err != nil {
			fmt.Fprintln(c.Stderr)
			return "", io.EOF // also for a terminal that was closed
		}
		return strings.TrimSpace(a.line), nil
	}
}

// maxAnswer is the longest line that is read, in bytes. A terminal gives 4096 at most.
const maxAnswer = 16 << 10

// Option is an answer that a person may give, by its key or its word.
type Option struct{ Key, Word, Means string }

// AskOption asks until the answer is one of options, by key or word, and returns its word and the text
// typed behind it. `?` prints what each option means. The end of the input selects the last option.
func (c *Console) AskOption(ctx context.Context, question string, options ...Option) (word, rest string, err error) {
	var keys []string
	for _, o := range options {
		keys = append(keys, o.Key+" "+o.Word)
	}
	for {
		line, err := c.Ask(ctx, question+" ("+strings.Join(keys, ", ")+", ? explains)")
		if err == io.EOF {
			return options[len(options)-1].Word, "", nil
		}
		if err != nil {
			return "", "", err
		}
		said, rest, _ := strings.Cut(line, " ")
		for _, o := range options {
			if strings.EqualFold(said, o.Key) || strings.EqualFold(said, o.Word) {
				return o.Word, strings.TrimSpace(rest), nil
			}
		}
		if said != "" && said != "?" {
			c.Say("%q is not one of these:", said)
		}
		printOptions(c.Stderr, options, c.Style(c.Stderr).Width)
	}
}

// printOptions prints what each option means, wrapped to width.
func printOptions(w io.Writer, options []Option, width int) {
	for _, o := range options {
		head := fmt.Sprintf("  %s  %-7s ", o.Key, o.Word)
		lines := []string{o.Means}
		if width > 2*len(head) {
			lines = text.Wrap(o.Means, width-len(head))
		}
		fmt.Fprintf(w, "%s%s\n", head, strings.Join(lines, "\n"+strings.Repeat(" ", len(head))))
	}
}
