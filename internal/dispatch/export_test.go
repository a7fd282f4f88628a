package dispatch

// Hear is what listens to the events of a task directory while its run goes on.
var Hear = hear
