// Package schemas holds the words that the rooms of bobbin share: every shape that crosses a wall or is stored.
// It is pure: no I/O, no goroutine, no clock. Values are data; a receiver may keep what it was given and must not
// change it in place.
package schemas
