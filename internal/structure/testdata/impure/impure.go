// Package impure does what flow code must not do. The purity test reads it and compares.
package impure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

var counter int

type clock interface{ Tick() }

func pure(_ flow.Flow, m map[string]int, c clock) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s=%d\n", k, m[k])
	}
	d := time.Duration(counter) * time.Second
	local := counter
	local++
	c.Tick()
	return b.String() + d.String() + fmt.Sprint(local)
}

func impure(ctx context.Context, f flow.Flow, m map[string]int) error {
	go pure(f, m, nil) // want: a goroutine
	for k := range m { // want: the order of a map
		_ = k
	}
	for k := range maps.Keys(m) { // want: call of maps.Keys
		_ = k
	}
	ch := make(chan int, 1) // want: a channel
	ch <- 1                 // want: a channel
	<-ch                    // want: a channel
	for range ch {          // want: a channel
		break
	}
	select { // want: a channel
	default:
	}
	counter++                                   // want: a change of package variable counter
	fmt.Println("x")                            // want: call of fmt.Println
	fmt.Fprint(os.Stdout)                       // want: call of fmt.Fprint; use of os.Stdout
	fmt.Fprint(os.Stderr, time.Now().Unix())    // want: call of fmt.Fprint; use of os.Stderr; call of time.Now
	time.Sleep(1)                               // want: call of time.Sleep
	println()                                   // want: call of println
	if _, err := os.ReadFile("x"); err != nil { // want: call of os.ReadFile
		return err
	}
	<-ctx.Done()      // want: a channel; call of context.Context.Done
	later := time.Now // want: call of time.Now
	_ = later
	return ctx.Err() // want: call of context.Context.Err
}

// Nobody who takes a flow.Flow calls it: it may do what it likes.
func elsewhere() { os.Remove("x") }

// A helper is flow code when flow code calls it.
func calls(flow.Flow) { helper() }

func helper() { os.Remove("x") } // want: call of os.Remove

// A function held in a field is followed to all that the field is given.
type host struct {
	read  func() string
	never func()
}

func throughField(_ flow.Flow, h host) string {
	h.never()
	return h.read()
}

func wire() host {
	elsewhere()
	h := host{read: func() string {
		return os.Getenv("X") // want: call of os.Getenv
	}}
	h.read = made("y")
	return h
}

// made does things when it is called, which no flow code does, and what it returns does others.
func made(name string) func() string {
	os.Remove(name)
	return func() string {
		return os.TempDir() // want: call of os.TempDir
	}
}

// A function that is passed is followed to all that are passed, through as many hands as it goes.
func throughParameter(_ flow.Flow, look func()) { relay(look) }

func relay(look func()) { look() }

func passes() { throughParameter(nil, func() { os.Exit(1) }) } // want: call of os.Exit

// A method value is followed as the method is.
type disk struct{ dir string }

func (d disk) wipe() { os.RemoveAll(d.dir) } // want: call of os.RemoveAll

func throughMethodValue(flow.Flow) {
	wipe := disk{"x"}.wipe
	wipe()
}

// An effect may be used from an activity alone.
type writer struct{ dir string }

func (w writer) write(context.Context, flow.Call, string) (int, error) {
	return 0, os.Mkdir(w.dir, 0o755) // want: call of os.Mkdir
}

func usesEffect(flow.Flow) { writer{"x"}.write(nil, flow.Call{}, "") }

const add flow.Act[string, int] = "add"

type adder struct{ dir string }

func (a adder) add(context.Context, flow.Call, string) (int, error) {
	return 0, os.Mkdir(a.dir, 0o755)
}

func usesActivity(f flow.Flow) (int, error) {
	_ = add.With(adder{"x"}.add)
	_ = flow.Activity{Name: "add", Run: func(context.Context, flow.Call, json.RawMessage) (any, error) {
		return nil, os.Mkdir("x", 0o755)
	}}
	return add.Do(f, "x")
}

// A method of an interface is that of every type that has it.
type ticker interface{ tick() }

type slow struct{}

func (*slow) tick() { time.Sleep(1) } // want: call of time.Sleep

func throughInterface(_ flow.Flow, t ticker) { t.tick() }

// A flow may also stand in what a method belongs to, and in no function with a name.
type step struct {
	flow flow.Flow
	name string
}

func (s *step) run() { os.Chdir(s.name) } // want: call of os.Chdir

var branch = flow.Branch{Run: func(flow.Flow) error {
	return os.Chmod("x", 0) // want: call of os.Chmod
}}

// Of a function from who knows where nobody can say what it does.
func unknown(flow.Flow) {
	list := []func(){}
	for _, do := range list {
		do() // want: call of do, which can't be followed
	}
}
