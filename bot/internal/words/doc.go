// Package words is how bot writes for people: untrusted text that stays text, numbers with their units, command lines that can be
// read back, addresses without the secrets in them, diffs that begin where a person would begin them, and the errors that most
// verbs give. It is pure, and knows nothing of replies.
package words
