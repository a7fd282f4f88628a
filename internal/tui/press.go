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
	m.keyPressed = true
	m.keyActivity.press()
	switch m.mode {
	case searching, enteringReason:
		return m.pressInText(msg)
	case confirming:
		return m.answer(msg)
	case readingSheet:
		return m.pressInSheet(msg)
	}
	k := m.keys[msg.String()]
	if k == nil {
		return nil
	}
	if m.runningOrder == "" {
		m.message, m.isError = Answer{}, false
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

// pressInText handles a key while a text is typed.
func (m *Model) pressInText(msg tea.KeyPressMsg) tea.Cmd {
	switch name := msg.String(); name {
	case "enter":
		if m.mode == enteringReason {
			m.askReject()
			return nil
		}
		m.mode = browsing
	case "esc", "ctrl+c":
		if m.mode == searching {
			m.typed = ""
			m.updateSearch()
		}
		m.mode = browsing
	case "backspace":
		if r := []rune(m.typed); len(r) > 0 {
			m.typed = string(r[:len(r)-1])
		}
		m.updateSearch()
	case "ctrl+u":
		m.typed = ""
		m.updateSearch()
	default:
		m.typed += typedText(msg.Text)
		m.updateSearch()
	}
	return m.showSelected()
}

// typedText returns what a key types, on one line; a blank alone is kept.
func typedText(s string) string {
	if s == " " {
		return s
	}
	return oneLine(s)
}

// updateSearch searches while a person types.
func (m *Model) updateSearch() {
	if m.mode == searching {
		m.list.find(m.typed)
	}
}

// ask asks a question, and calls yes after a yes only.
func (m *Model) ask(question string, yes func() tea.Cmd) {
	m.mode, m.question, m.confirmed = confirming, question, yes
}

// answer handles a key as an answer: y is a yes, everything else a no.
func (m *Model) answer(msg tea.KeyPressMsg) tea.Cmd {
	m.mode = browsing
	if msg.String() == "y" {
		return m.confirmed()
	}
	m.message, m.isError = Answer{Said: "nothing was done"}, false
	return nil
}

// forTask calls do with the selected task.
func (m *Model) forTask(what string, do func(*status.Task) tea.Cmd) tea.Cmd {
	t, ok := m.list.task()
	if !ok {
		m.message, m.isError = Answer{Said: "no task is selected: there is nothing to " + what, Next: "n"}, true
		return nil
	}
	return do(t)
}

// approve approves what the page shows.
func (m *Model) approve(t *status.Task) tea.Cmd {
	return m.ifPlanShown(t, "a approves", func() tea.Cmd { return m.giveOrder(Approve, t.ID, m.page.about, "") })
}

// ifPlanShown calls do if the page shows what people agree to, in the state in which it was when a key
// was pressed last. Otherwise it only shows that. does says what the key does then.
func (m *Model) ifPlanShown(t *status.Task, does string, do func() tea.Cmd) tea.Cmd {
	switch {
	case !slices.Contains([]trellis.Status{trellis.Waiting, trellis.Ready, trellis.InProgress}, t.Status):
		m.refuseKey(t, "nothing needs approval")
		return nil
	case m.page.tab != Plan || m.page.id != t.ID:
		m.tab = Plan
		read := m.showSelected()
		m.page.keyAction = does
		return read
	case !m.page.read:
		m.message, m.isError = Answer{Said: "the plan of " + t.ID + " is being read: nothing was done"}, true
		return nil
	case m.page.about == Subject{}:
		m.message, m.isError = Answer{Said: "what there is to approve can't be shown"}, true
		return nil
	case m.page.about != m.page.seenSubject:
		m.page.seenSubject = m.page.about
		m.message, m.isError = Answer{Said: does + " what is shown now"}, false
		return nil
	}
	return do()
}

// refuseKey shows why a key does nothing to a task in its state.
func (m *Model) refuseKey(t *status.Task, why string) {
	m.message, m.isError = Answer{Said: fmt.Sprintf("%s is %s: %s", t.ID, statusOf(t).InWords(), why)}, true
}

// giveOrder gives an order, unless another one is being carried out.
func (m *Model) giveOrder(o Order, id string, about Subject, reason string) tea.Cmd {
	if m.runningOrder != "" {
		m.message, m.isError = Answer{Said: "still at it: " + m.runningOrder}, true
		return nil
	}
	m.runningOrder = string(o) + " " + id
	return func() tea.Msg {
		a, err := m.world.Give(m.ctx, o, id, about, reason)
		return orderDone{a, err}
	}
}

func (m *Model) startReject() tea.Cmd {
	return m.forTask(string(Reject), func(t *status.Task) tea.Cmd {
		return m.ifPlanShown(t, "x rejects", func() tea.Cmd {
			m.mode, m.typed, m.rejectedTask, m.rejectedSubject = enteringReason, "", t.ID, m.page.about
			return nil
		})
	})
}

func (m *Model) askReject() {
	reason, id := strings.TrimSpace(m.typed), m.rejectedTask
	if reason == "" {
		m.mode, m.message, m.isError = browsing, Answer{Said: "a rejection needs its reason: nothing was done"}, true
		return
	}
	what, undo := id, "Undo: trellis plan --retry "+trellis.ShellWord(id)
	if m.rejectedSubject.Step != "" {
		what, undo = m.rejectedSubject.Step+" of "+id, "The step fails"
	}
	m.ask(fmt.Sprintf("reject %s? %s", what, undo), func() tea.Cmd { return m.giveOrder(Reject, id, m.rejectedSubject, reason) })
}

// runProgram gives the terminal to a program, and takes it back when that ends.
func (m *Model) runProgram(kind Program) tea.Cmd {
	id := ""
	if kind != NewPlan {
		t, ok := m.list.task()
		if !ok {
			m.message, m.isError = Answer{Said: "no task is selected", Next: "n"}, true
			return nil
		}
		id = t.ID
	}
	cmd, err := m.world.Program(kind, id)
	if err != nil {
		m.showError(err)
		return nil
	}
	return tea.Exec(&terminalProgram{Cmd: cmd, owner: &m.terminalOwner, restore: m.restore, wait: kind != Shell && kind != Editor}, func(err error) tea.Msg { return programEnded{programError(kind, err)} })
}

// programError returns the error of a program that had the terminal, nil if there is nothing to say. The output of a trellis
// command was read, and is still there below the screen. The exit code of a shell is that of the last command in it.
func programError(kind Program, err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case !ok || exit.ExitCode() < 0 || kind == Editor:
		return fmt.Errorf("%s ended: %w", kind, err)
	case kind == Shell || slices.Contains(undecidedCodes, exit.ExitCode()):
		return nil
	}
	return fmt.Errorf("%s: %s; q shows what it said", kind, cmp.Or(exitWords[exit.ExitCode()], fmt.Sprintf("it exited with %d", exit.ExitCode())))
}

// undecidedCodes are the exit codes of a program in which a person decided nothing: later, or by Ctrl-C.
var undecidedCodes = []int{8, 130}

// exitWords are other exit codes, in words.
var exitWords = map[int]string{2: "nothing was done", 4: "the requirement was rejected", 5: "the planner failed", 12: "no agent can be used"}

// move moves down by n lines: in the page while that is read, else in the list.
func (m *Model) move(n int) tea.Cmd {
	if m.pageFocused {
		w, h := screen{m}.pageRoom()
		m.page.scroll(n, w, h)
		return nil
	}
	m.list.move(n)
	return m.showSelected()
}

// screenful returns how many lines are on the screen: of the page while that is read, else of the list.
func (m *Model) screenful() int {
	if m.pageFocused {
		_, h := screen{m}.pageRoom()
		return h
	}
	return screen{m}.room()
}

// switchTab switches to the next tab, or the one before.
func (m *Model) switchTab(n int) tea.Cmd {
	m.tab = Tabs[(slices.Index(Tabs, m.tab)+n+len(Tabs))%len(Tabs)]
	return m.showSelected()
}

func (m *Model) jump(direction int) tea.Cmd {
	w, h := screen{m}.pageRoom()
	m.page.jump(direction, w, h)
	return nil
}

// back leaves the page, or shows all tasks again.
func (m *Model) back() tea.Cmd {
	switch {
	case m.pageFocused:
		m.pageFocused = false
	default:
		m.list.statusFilter = ""
		m.list.search = ""
		m.list.rebuildRows()
	}
	return m.showSelected()
}

// quit ends the program, after a yes if an order is being carried out.
func (m *Model) quit() tea.Cmd {
	if m.runningOrder == "" {
		m.quitByKey = true
		return tea.Quit
	}
	m.ask("still at it: "+m.runningOrder+". End all the same? What it has not done is left undone", func() tea.Cmd {
		m.quitByKey = true
		return tea.Quit
	})
	return nil
}
