// Command instant is an agent that takes no time, or as long as an argument says. It logs when it was started, reads its
// prompt, and does at once what its role requires: implement writes a file, check says that all is well, accept accepts, and
// the planning roles plan a task of one step. So the duration of a run with it is Trellis' own time.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	began := time.Now().UnixNano()
	err := pause(os.Args[2:])
	if err == nil {
		err = work(os.Args[1], os.Getenv("TRELLIS_ROLE"), os.Getenv("TRELLIS_TASK_ID"), began)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "instant:", err)
		os.Exit(1)
	}
}

// pause sleeps for the duration in the first argument, if there is one.
func pause(args []string) error {
	if len(args) == 0 {
		return nil
	}
	d, err := time.ParseDuration(args[0])
	time.Sleep(d)
	return err
}

func work(log, role, task string, began int64) error {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("reading the prompt: %w", err)
	}
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, role, task, began)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	switch role {
	case "implement":
		fmt.Println("done")
		return os.WriteFile("work.txt", []byte(task+"\n"), 0o644)
	case "check":
		fmt.Println("ALL_CHECKS_FINISH")
	case "accept":
		fmt.Println(`{"criteria": [{"id": "A1", "verdict": "met", "evidence": "work.txt:1"}]}`)
	case "evaluate", "research", "taskspec", "plan", "judge":
		fmt.Println(planned[role])
	default:
		return fmt.Errorf("the role %q has no part in this", role)
	}
	return nil
}

// planned are the answers of the planning roles.
var planned = map[string]string{
	"evaluate": `{"decision": "accept", "category": "", "details": "", "suggestions": [], "size": "small", "confidence": 1}`,
	"research": `## implement.jsonl
- path: src/000/file-0.txt, reason: what is to change
## check.jsonl
- path: src/000/file-0.txt, reason: what is to change
## Verification Plan
- test: ls src
`,
	"taskspec": `{"user_intent": "a file", "acceptance": ["work.txt names the task"]}`,
	"plan": `{"schema_version": 1, "title": "Write work.txt", "summary": "A file.", "requirements": ["a file"], "files": [{"path": "work.txt", "change": "new"}],
 "steps": [{"id": "write_it", "type": "prompt", "prompt": "Write it.", "verify": "ls work.txt", "covers": ["work.txt names the task"]},
  {"id": "run_tests", "type": "script", "command": "ls src", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "work.txt names the task", "verify": "ls work.txt"}]}`,
	"judge": `{"pass": true, "feedback": "", "criteria": {"verification": true, "atomicity": true, "coverage": true, "vars": true}}`,
}
