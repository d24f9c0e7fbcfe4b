// Package audit keeps one append-only record a thread: data/users/<thread>/audit.jsonl, one JSON object a line.
//
// Each line names the hash of the line before it (prev) and its own (hash): the SHA-256, in lower-case hex, of the line
// without its last member, that is with `,"hash":"…"` taken out. So a line that is changed, removed, inserted or moved is
// found by [Log.Verify]. Lines cut off at the end cannot be found from the file alone: audit.head, beside it, holds the last
// number and hash that were synced. Neither is signed: they show accidents and careless hands, not an operator who
// recomputes the whole chain and rewrites both.
//
// A record is in the kernel when [Log.Append] returns, so a killed process loses none, and on the disk about a second
// later, so a power cut loses at most that second. Several processes may write one log.
//
// Concurrent records of a thread share one write(2), by the caller whose turn it is. While records keep coming and [Log.Run]
// runs, the file's lock and the knowledge that it is still the file of that name are kept for two milliseconds.
package audit
