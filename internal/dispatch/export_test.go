package dispatch

// Hear is what listens to the events of a task directory while its run goes on.
var Hear = hear

// AppendLine is how each process writes to the ledger of a day.
var AppendLine = appendLine
