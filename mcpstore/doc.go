// Package mcpstore keeps what a thread wants: its servers, its rules about tools, and who owns and approved what. It proposes a
// change as something that a person can look at, commits it by compare-and-swap under a lock that other processes share, keeps
// the last 50 revisions with their author, and watches the files for changes by any hand.
//
// A definition counts only with an approval that names its fingerprint; approvals keep the definition itself, so that what was
// approved runs on while a changed file waits. The order of writes makes every crash leave the old state or the new one, and
// never more permission than before.
//
// The room is a little larger than most: proposing, committing and watching share the rule of what a crash or another process
// may leave behind, and splitting them would put that rule in two places. Reading texts is the closet internal/config.
package mcpstore
