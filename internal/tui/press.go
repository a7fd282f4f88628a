package tui

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// press handles a key by the current mode.
func (m *Model) press(msg tea.KeyPressMsg) tea.Cmd {
	m.pressed = true
	m.hand.press()
	switch m.mode {
	case searching, reasoning:
		return m.letter(msg)
	case asked:
		return m.answer(msg)
	case reference:
		return m.pressInSheet(msg)
	}
	k := m.keys[msg.String()]
	if k == nil {
		return nil
	}
	if m.busy == "" {
		m.said, m.wrong = Answer{}, false
	}
	return k.do(m)
}

func (m *Model) pressInSheet(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "j", "down", "space", "pgdown":
		m.sheetTop = min(m.sheetTop+1, max(0, len(sheetLines(m.width))-m.height+1))
	case "k", "up", "pgup":
		m.sheetTop = max(0, m.sheetTop-1)
	case "ctrl+c":
		return m.quit()
	default:
		m.mode = browsing
	}
	return nil
}

// letter handles a key while a text is typed.
func (m *Model) letter(msg tea.KeyPressMsg) tea.Cmd {
	switch name := msg.String(); name {
	case "enter":
		if m.mode == reasoning {
			m.askReject()
			return nil
		}
		m.mode = browsing
	case "esc", "ctrl+c":
		if m.mode == searching {
			m.typed = ""
			m.typing()
		}
		m.mode = browsing
	case "backspace":
		if r := []rune(m.typed); len(r) > 0 {
			m.typed = string(r[:len(r)-1])
		}
		m.typing()
	case "ctrl+u":
		m.typed = ""
		m.typing()
	default:
		m.typed += oneLineKept(msg.Text)
		m.typing()
	}
	return m.look()
}

// oneLineKept returns what a key types, on one line; a blank alone is kept.
func oneLineKept(s string) string {
	if s == " " {
		return s
	}
	return oneLine(s)
}

// typing searches while a person types.
func (m *Model) typing() {
	if m.mode == searching {
		m.list.find(m.typed)
	}
}

// ask asks a question, and calls yes after a yes only.
func (m *Model) ask(question string, yes func() tea.Cmd) {
	m.mode, m.question, m.yes = asked, question, yes
}

// answer handles a key as an answer: y is a yes, everything else a no.
func (m *Model) answer(msg tea.KeyPressMsg) tea.Cmd {
	m.mode = browsing
	if msg.String() == "y" {
		return m.yes()
	}
	m.said, m.wrong = Answer{Said: "nothing was done"}, false
	return nil
}

// forTask calls do with the selected task.
func (m *Model) forTask(what string, do func(*status.Task) tea.Cmd) tea.Cmd {
	t, ok := m.list.task()
	if !ok {
		m.said, m.wrong = Answer{Said: "no task is selected: there is nothing to " + what, Next: "n"}, true
		return nil
	}
	return do(t)
}

// approve approves what the page shows.
func (m *Model) approve(t *status.Task) tea.Cmd {
	return m.shown(t, "a approves", func() tea.Cmd { return m.give(Approve, t.ID, m.page.about, "") })
}

// shown calls do if the page shows what people agree to, in the state in which it was when a key
// was pressed last. Otherwise it only shows that. does says what the key does then.
func (m *Model) shown(t *status.Task, does string, do func() tea.Cmd) tea.Cmd {
	switch {
	case !slices.Contains([]trellis.Status{trellis.Waiting, trellis.Ready, trellis.InProgress}, t.Status):
		m.idle(t, "nothing needs approval")
		return nil
	case m.page.tab != Plan || m.page.id != t.ID:
		m.tab = Plan
		read := m.look()
		m.page.does = does
		return read
	case !m.page.read:
		m.said, m.wrong = Answer{Said: "the plan of " + t.ID + " is being read: nothing was done"}, true
		return nil
	case m.page.about == Subject{}:
		m.said, m.wrong = Answer{Said: "what there is to agree to can't be shown"}, true
		return nil
	case m.page.about != m.page.seen:
		m.page.seen = m.page.about
		m.said, m.wrong = Answer{Said: does + " what is shown now"}, false
		return nil
	}
	return do()
}

// idle shows why a key does nothing to a task in its state.
func (m *Model) idle(t *status.Task, why string) {
	m.said, m.wrong = Answer{Said: fmt.Sprintf("%s is %s: %s", t.ID, statusOf(t).InWords(), why)}, true
}

// give gives an order, unless another one is being carried out.
func (m *Model) give(o Order, id string, about Subject, reason string) tea.Cmd {
	if m.busy != "" {
		m.said, m.wrong = Answer{Said: "still at it: " + m.busy}, true
		return nil
	}
	m.busy = string(o) + " " + id
	return func() tea.Msg {
		a, err := m.world.Give(m.ctx, o, id, about, reason)
		return answered{a, err}
	}
}

func (m *Model) startReject() tea.Cmd {
	return m.forTask(string(Reject), func(t *status.Task) tea.Cmd {
		return m.shown(t, "x rejects", func() tea.Cmd {
			m.mode, m.typed, m.target, m.about = reasoning, "", t.ID, m.page.about
			return nil
		})
	})
}

func (m *Model) askReject() {
	reason, id := strings.TrimSpace(m.typed), m.target
	if reason == "" {
		m.mode, m.said, m.wrong = browsing, Answer{Said: "a rejection needs its reason: nothing was done"}, true
		return
	}
	what, undo := id, "Undo: trellis plan --retry "+trellis.ShellWord(id)
	if m.about.Step != "" {
		what, undo = m.about.Step+" of "+id, "The step fails"
	}
	m.ask(fmt.Sprintf("reject %s? %s", what, undo), func() tea.Cmd { return m.give(Reject, id, m.about, reason) })
}

// run gives the terminal to a program, and takes it back when that ends.
func (m *Model) run(kind Program) tea.Cmd {
	id := ""
	if kind != NewPlan {
		t, ok := m.list.task()
		if !ok {
			m.said, m.wrong = Answer{Said: "no task is selected", Next: "n"}, true
			return nil
		}
		id = t.ID
	}
	cmd, err := m.world.Program(kind, id)
	if err != nil {
		m.fail(err)
		return nil
	}
	return tea.Exec(&guest{Cmd: cmd, among: &m.guests, restore: m.restore, wait: kind != Shell && kind != Editor}, func(err error) tea.Msg { return returned{ended(kind, err)} })
}

// ended returns the error of a program that had the terminal, nil if there is nothing to say. The output of a trellis
// command was read, and is still there below the screen. The exit code of a shell is that of the last command in it.
func ended(kind Program, err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case !ok || exit.ExitCode() < 0 || kind == Editor:
		return fmt.Errorf("%s ended: %w", kind, err)
	case kind == Shell || slices.Contains(undecided, exit.ExitCode()):
		return nil
	}
	return fmt.Errorf("%s: %s; q shows what it said", kind, cmp.Or(ends[exit.ExitCode()], fmt.Sprintf("it exited with %d", exit.ExitCode())))
}

// undecided are the exit codes of a program in which a person decided nothing: later, or by Ctrl-C.
var undecided = []int{8, 130}

// ends are other exit codes, in words.
var ends = map[int]string{2: "nothing was done", 4: "the requirement was rejected", 5: "the planner failed", 12: "no agent can be used"}

// move moves down by n lines: in the page while that is read, else in the list.
func (m *Model) move(n int) tea.Cmd {
	if m.reading {
		w, h := screen{m}.pageRoom()
		m.page.scroll(n, w, h)
		return nil
	}
	m.list.move(n)
	return m.look()
}

// screenful returns how many lines are on the screen: of the page while that is read, else of the list.
func (m *Model) screenful() int {
	if m.reading {
		_, h := screen{m}.pageRoom()
		return h
	}
	return screen{m}.room()
}

// turn switches to the next tab, or the one before.
func (m *Model) turn(n int) tea.Cmd {
	m.tab = Tabs[(slices.Index(Tabs, m.tab)+n+len(Tabs))%len(Tabs)]
	return m.look()
}

func (m *Model) jump(direction int) tea.Cmd {
	w, h := screen{m}.pageRoom()
	m.page.jump(direction, w, h)
	return nil
}

// back leaves the page, or shows all tasks again.
func (m *Model) back() tea.Cmd {
	switch {
	case m.reading:
		m.reading = false
	default:
		m.list.only = ""
		m.list.search = ""
		m.list.arrange()
	}
	return m.look()
}

// quit ends the program, after a yes if an order is being carried out.
func (m *Model) quit() tea.Cmd {
	if m.busy == "" {
		m.left = true
		return tea.Quit
	}
	m.ask("still at it: "+m.busy+". End all the same? What it has not done is left undone", func() tea.Cmd {
		m.left = true
		return tea.Quit
	})
	return nil
}
