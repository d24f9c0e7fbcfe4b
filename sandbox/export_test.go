package sandbox

func Clean(text string, hide ...string) []string { return clean(text, hide) }

func Telling(lines []string) string { return telling(lines) }

func ChangesProgram(name string) bool { return changesProgram(name) }
