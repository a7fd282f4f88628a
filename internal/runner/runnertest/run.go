package runnertest

// Working is a script whose implement writes a bug that the project's own test finds, and whose debug repairs it.
const Working = `
roles:
  evaluate:
    - answer: {decision: accept, category: "", details: A flag., suggestions: [], size: tiny, confidence: 0.9}
  research:
    - answer: |
        ## implement.jsonl
        - path: greet.sh, reason: the program
        ## check.jsonl
        - path: test.sh, reason: its test
        ## Suggested Scope
        greet
        ## Verification Plan
        - test: sh test.sh
  prd:
    - answer: {title: Say bye, summary: greet.sh says bye., requirements: [bye], acceptance: [{criterion: it says bye, verify: "sh greet.sh --bye | grep -q Bye", level: must}]}
  implement:
    - files: {greet.sh: "echo Bye\n"}
      answer: done
  check:
    - answer: fine
  debug:
    - files: {greet.sh: "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"}
      answer: fixed
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "greet.sh:1"}]}
`
