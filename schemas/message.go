package schemas

import "time"

// Message is one JSON-RPC message between bobbin and a server, as it went over the wire, for those who look for a mistake. Secrets
// of the server's definition are masked in it, and so is what a member answered to the server's own question.
type Message struct {
	N      int           // from 1 on, of this server since somebody began to watch; a gap: older ones are no longer kept
	At     time.Time     // when bobbin sent or read it
	Sent   bool          // by bobbin
	Kind   MessageKind   // by its members
	Method string        // of an answer: of the request that it answers, if that was seen
	ID     string        // as JSON; "" of a notification
	Took   time.Duration // of an answer: since its request; 0 = that was not seen
	As     MemberID      // as whom the session was opened
	Text   string        // at most 64 KiB
	Size   int           // bytes of the whole
}

// MessageKind says what a message is (JSON-RPC 2.0, sections 4 and 5).
type MessageKind string

// The kinds.
const (
	MessageRequest      MessageKind = "request"
	MessageAnswer       MessageKind = "answer"
	MessageError        MessageKind = "error"
	MessageNotification MessageKind = "notification"
	MessageNoise        MessageKind = "noise" // a line that is not JSON-RPC
)
