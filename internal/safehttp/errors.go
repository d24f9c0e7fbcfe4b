package safehttp

import "fmt"

// URLError says what is wrong with a URL, for a person, and repeats no part of
// it, or with an entry of [ParseAllow], for the operator who wrote it.
type URLError struct {
	Problem string
	Hint    string // what to do
}

func (e *URLError) Error() string { return e.Problem }

// BlockedError means that the guard refused the address. Its text is for a
// person and reveals nothing about the network; Unwrap gives the operator the
// reason.
type BlockedError struct{ cause error }

func (e *BlockedError) Error() string {
	return "that address is not reachable from here: private and local networks are closed"
}

func (e *BlockedError) Unwrap() error { return e.cause }

// UnreachableError means that no connection came about: the name does not
// resolve, or no address answers. Nothing was sent. Unwrap gives the operator
// the reason, with addresses.
type UnreachableError struct{ cause error }

func (e *UnreachableError) Error() string {
	return "the server does not answer: its name may be wrong, or it is down"
}

func (e *UnreachableError) Unwrap() error { return e.cause }

// RedirectError refuses a redirect to another origin, of anything but GET and
// HEAD, or after too many others.
type RedirectError struct{}

func (e *RedirectError) Error() string {
	return "the server sends this request on to another address, which is not followed"
}

// TooLargeError means that a body, or one event of a stream, has more than
// Limit bytes after decompression. What was read before is valid.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the server's answer is larger than %d bytes", e.Limit)
}
