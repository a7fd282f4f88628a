package agents

// Secrets are the values in an environment that must not be kept in a file: those of variables whose name
// ends in _KEY, _TOKEN, _SECRET or PASSWORD.
func Secrets(env []string) []string { return secrets(env) }
