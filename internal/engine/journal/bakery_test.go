package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// The flow of the kill tests takes an order for a cake: branches that depend on each other, one of which
// fails at first; tastings until the cake is good; a customer who has to agree to the recipe that was used, and
// had agreed to an older one; delivery. If the order is called off, the parts are put into the freezer.
type (
	order struct {
		Code  int
		Cakes int
	}
	bill struct {
		Cake    string
		Recipes []string
		Agreed  string
	}
	verdict  struct{ Good bool }
	approval struct{ Recipe, By string }
)

const (
	sign    flow.Act[string, struct{}] = "sign" // writes what the shop's door says
	bake    flow.Act[string, string]   = "bake"
	read    flow.Act[string, string]   = "read" // reads the recipe, which people edit
	taste   flow.Act[int, verdict]     = "taste"
	ice     flow.Act[int, verdict]     = "ice" // exists since code 2
	deliver flow.Act[string, string]   = "deliver"
	freeze  flow.Act[string, string]   = "freeze"
)

const bakeryCode = 2

func bakery(f flow.Flow, in order) (bill, error) {
	if in.Code > bakeryCode {
		return bill{}, flow.Fail("journal", "code %d is newer than %d", in.Code, bakeryCode)
	}
	b, err := cake(f, in)
	if errors.Is(err, flow.ErrCancelled) {
		f = f.Shield().In("cancel")
		if _, err := freeze.Do(f, "parts"); err != nil {
			return b, err
		}
		if _, err := sign.Do(f, "called off"); err != nil {
			return b, err
		}
	}
	return b, err
}

func cake(f flow.Flow, in order) (b bill, err error) {
	if _, err := sign.Do(f, "baking"); err != nil {
		return b, err
	}
	part := func(name string, after ...string) flow.Branch {
		return flow.Branch{Name: name, After: after, Run: func(f flow.Flow) error { return bakeUntilGood(f, name) }}
	}
	if err := f.All(2, part("glaze", "dough", "cream"), part("dough"), part("cream")); err != nil {
		return b, err
	}
	for round := 1; ; round++ {
		good, recipe, err := tasting(f.In(fmt.Sprint("round-", round)), in, round)
		if err != nil {
			return b, err
		}
		b.Recipes = append(b.Recipes, recipe)
		if good {
			break
		}
	}
	last := b.Recipes[len(b.Recipes)-1]
	if b.Agreed, err = agreed(f, last); err != nil {
		return b, err
	}
	if b.Cake, err = deliver.Do(f, last); err != nil {
		return b, err
	}
	_, err = sign.Do(f, "sold")
	return b, err
}

func bakeUntilGood(f flow.Flow, what string) error {
	for {
		_, err := bake.Do(f, what)
		var fail *flow.Failure
		if !errors.As(err, &fail) || !fail.Retryable {
			return err
		}
		if err := f.Sleep(fail.ResumeAt.Sub(fail.At)); err != nil {
			return err
		}
	}
}

func tasting(f flow.Flow, in order, round int) (bool, string, error) {
	recipe, err := read.Do(f, "recipe")
	if err != nil {
		return false, "", err
	}
	if err := bakeUntilGood(f, recipe); err != nil {
		return false, "", err
	}
	if in.Code >= 2 {
		if _, err := ice.Do(f, round); err != nil {
			return false, "", err
		}
	}
	v, err := taste.Do(f, round)
	return v.Good, recipe, err
}

func agreed(f flow.Flow, recipe string) (string, error) {
	for {
		var a approval
		if _, err := f.Await("agree", flow.Forever, &a); err != nil {
			return "", err
		}
		if a.Recipe == recipe {
			return a.By, nil
		}
	}
}

// world is where the activities have their effects: files below dir.
type world struct {
	dir  string
	step func(what string) // called at the moments at which a process may die
	run  *journal.Run
}

// sold is the result of an undisturbed run.
var sold = bill{Cake: "cake after two", Recipes: []string{"one", "two"}, Agreed: "ann"}

// newWorld begins an order; the customer's two letters are in the mailbox.
func newWorld(t testing.TB, code int) *world {
	w := emptyWorld(t, code)
	w.letter("1.json", letter{ID: "1", Signal: "agree", Data: approval{"one", "eve, before the edit"}})
	w.letter("2.json", letter{ID: "2", Signal: "agree", Data: approval{"two", "ann"}})
	return w
}

func emptyWorld(t testing.TB, code int) *world {
	w := &world{dir: memory(t)}
	for _, dir := range []string{"effects", "mail"} {
		must(os.Mkdir(filepath.Join(w.dir, dir), 0o700))
	}
	w.write("recipe", "one")
	begin(t, w.options(), order{Code: code, Cakes: 1})
	return w
}

// memory returns a folder on a disk in memory, if there is one: the power cuts of these tests are simulated, so that
// an fsync proves nothing and only takes time.
func memory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "journal")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) options() journal.Options {
	return journal.Options{Dir: w.path("run"), Build: "test", Activities: w.activities(), Mailbox: w.mail, ParkAfter: time.Second}
}

// execute opens the run in w, executes it once and closes it.
func (w *world) execute(ctx context.Context, o journal.Options) (bill, error) {
	r, err := journal.Open(o)
	if err != nil {
		return bill{}, err
	}
	defer r.Close()
	w.run = r
	return journal.Execute(ctx, r, bakery)
}

func (w *world) activities() []flow.Activity {
	return []flow.Activity{sign.With(w.sign), bake.With(w.bake), read.With(w.read), taste.With(w.taste), ice.With(w.taste),
		deliver.With(w.deliver), freeze.With(w.freeze)}
}

func (w *world) sign(ctx context.Context, c flow.Call, text string) (struct{}, error) {
	w.enter(c)
	w.write("door", text) // repeating this does no harm
	return struct{}{}, nil
}

// bake fails the first time for the cream, and waits for the customer to call off if call-off-at names the call. In the
// first round somebody edits the recipe meanwhile.
func (w *world) bake(ctx context.Context, c flow.Call, what string) (string, error) {
	w.enter(c)
	made, err := w.once(c, what)
	if err != nil {
		return "", err
	}
	switch {
	case c.ID == w.text("call-off-at"):
		w.letter("off.json", letter{ID: "off", Cancel: true})
		<-ctx.Done()
		return "", ctx.Err()
	case c.ID == "cream/bake#1":
		at := time.Now().UTC()
		return "", &flow.Failure{Code: "rate_limited", Retryable: true, At: at, ResumeAt: at.Add(2 * time.Millisecond)}
	case c.ID == "round-1/bake#1":
		w.write("recipe", "two")
	}
	return made, nil
}

func (w *world) read(_ context.Context, c flow.Call, file string) (string, error) {
	w.enter(c)
	return w.text(file), nil
}

func (w *world) taste(_ context.Context, c flow.Call, round int) (verdict, error) {
	w.enter(c)
	return verdict{round > 1}, nil
}

func (w *world) deliver(_ context.Context, c flow.Call, recipe string) (string, error) {
	w.enter(c)
	return w.once(c, "cake after "+recipe)
}

func (w *world) freeze(_ context.Context, c flow.Call, what string) (string, error) {
	w.enter(c)
	return w.once(c, what)
}

// enter records each entry into an activity.
func (w *world) enter(c flow.Call) {
	w.at("enter")
	w.add("entries", c.ID)
}

// once makes an effect unless it exists, and records each one that is made.
func (w *world) once(c flow.Call, effect string) (string, error) {
	name := filepath.Join("effects", strings.ReplaceAll(c.ID, "/", "_"))
	if old := w.text(name); old != "" {
		return old, nil
	}
	w.at("before the effect")
	w.write(name, effect)
	w.add("made", c.ID)
	w.at("after the effect")
	return effect, nil
}

func (w *world) at(what string) {
	if w.step != nil {
		w.step(what)
	}
}

// letter is a message, stored as a file.
type letter struct {
	ID, Signal string
	Data       any
	Cancel     bool
}

func (w *world) letter(name string, l letter) {
	data, err := json.Marshal(l)
	must(err)
	w.write(filepath.Join("mail", name), string(data))
	if w.run != nil {
		w.run.Poke()
	}
}

func (w *world) mail() (list []journal.Message) {
	names, _ := filepath.Glob(w.path("mail/*.json"))
	for _, name := range names {
		var l struct {
			letter
			Data json.RawMessage
		}
		data, err := os.ReadFile(name)
		must(err)
		must(json.Unmarshal(data, &l))
		list = append(list, journal.Message{ID: l.ID, Signal: l.Signal, Data: l.Data, Cancel: l.Cancel})
	}
	return list
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) text(name string) string {
	data, _ := os.ReadFile(w.path(name))
	return string(data)
}

func (w *world) write(name, text string) {
	name = w.path(name)
	must(os.WriteFile(name+".new", []byte(text), 0o600))
	must(os.Rename(name+".new", name))
}

func (w *world) add(name, line string) {
	f, err := os.OpenFile(w.path(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	must(err)
}

// count returns how often each line occurs in a file.
func (w *world) count(name string) map[string]int {
	m := map[string]int{}
	for line := range strings.Lines(w.text(name)) {
		m[strings.TrimSpace(line)]++
	}
	return m
}

func (w *world) history(t testing.TB) *journal.History {
	t.Helper()
	return readHistory(t, w.path("run"))
}

func readHistory(t testing.TB, dir string) *journal.History {
	t.Helper()
	h, err := journal.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// done returns the sorted ids of the calls that have an outcome.
func done(h *journal.History) (ids []string) {
	for _, c := range h.Calls {
		if c.Done {
			ids = append(ids, c.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func TestBakery(t *testing.T) {
	w := newWorld(t, bakeryCode)
	got, err := w.execute(t.Context(), w.options())
	if err != nil || fmt.Sprint(got) != fmt.Sprint(sold) {
		t.Fatalf("got %+v, %v, want %+v", got, err, sold)
	}
	before := w.text("entries")
	got, err = w.execute(t.Context(), w.options())
	if err != nil || fmt.Sprint(got) != fmt.Sprint(sold) || w.text("entries") != before {
		t.Errorf("again: got %+v, %v, want %+v and no entry", got, err, sold)
	}
}
