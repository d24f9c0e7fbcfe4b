package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"bobbin/schemas"
)

const (
	maxLine  = 16 << 10 // bytes of one record that we write
	maxSeq   = 1 << 53  // beyond it JSON readers lose digits
	hashMark = `,"hash":"`
	hashTail = len(hashMark) + 2*sha256.Size + len(`"}`)
	seqMark  = `{"seq":`
)

// appendLine encodes rec with its hash and a newline, and sets rec.Hash. The order of the members is fixed: the hash
// depends on it.
func appendLine(b []byte, rec *schemas.Record) []byte {
	start := len(b)
	b = append(b, seqMark...)
	b = strconv.AppendInt(b, rec.Seq, 10)
	b = append(b, `,"at":"`...)
	b = rec.At.AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = appendText(b, "thread", string(rec.Thread))
	b = appendOptional(b, "member", string(rec.Member))
	b = appendOptional(b, "name", rec.Name)
	b = appendOptional(b, "door", string(rec.Door))
	b = appendText(b, "event", string(rec.Event))
	b = appendOptional(b, "origin", string(rec.Origin))
	b = appendOptional(b, "server", rec.Server)
	b = appendOptional(b, "tool", rec.Tool)
	b = appendOptional(b, "runsAs", string(rec.RunsAs))
	b = appendOptional(b, "args", rec.Args)
	b = appendCount(b, "bytes", rec.Bytes)
	if rec.Ms != 0 && !math.IsNaN(rec.Ms) && !math.IsInf(rec.Ms, 0) {
		b = append(b, `,"ms":`...)
		b = strconv.AppendFloat(b, rec.Ms, 'f', 3, 64)
	}
	b = appendOptional(b, "outcome", string(rec.Outcome))
	b = appendOptional(b, "receipt", rec.Receipt)
	b = appendOptional(b, "detail", rec.Detail)
	b = appendCount(b, "torn", rec.Torn)
	b = appendText(b, "prev", rec.Prev)
	b = append(b, '}')
	sum := sha256.Sum256(b[start:])
	b = append(b[:len(b)-1], hashMark...)
	at := len(b)
	b = hex.AppendEncode(b, sum[:])
	rec.Hash = string(b[at:])
	return append(b, '"', '}', '\n')
}

func appendCount(b []byte, key string, n int) []byte {
	if n == 0 {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, int64(n), 10)
}

func appendOptional(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(b, key, text)
}

func appendText(b []byte, key, text string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':', '"')
	b = appendEscaped(b, text)
	return append(b, '"')
}

// appendEscaped writes text as the inside of a JSON string. Beside what JSON asks for, it escapes what would act on the
// terminal of somebody who prints the file: control and formatting characters (bidirectional overrides).
func appendEscaped(b []byte, text string) []byte {
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' && c != 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		bad := r == utf8.RuneError && n == 1
		if c >= utf8.RuneSelf && !bad && !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			i += n
			continue
		}
		b = append(b, text[from:i]...)
		switch {
		case bad:
			b = append(b, `\ufffd`...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case r > 0xffff:
			r -= 0x10000
			b = appendUnit(appendUnit(b, 0xd800|r>>10), 0xdc00|r&0x3ff)
		default:
			b = appendUnit(b, r)
		}
		i += n
		from = i
	}
	return append(b, text[from:]...)
}

func appendUnit(b []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[unit>>12&15], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
}

// link is what chains a line to its neighbours.
type link struct {
	Seq    int64
	Thread schemas.ThreadID
	Torn   int64
	Prev   string
	Hash   string
}

// readLink reads a line without its newline; ok is false unless its hash is right and its members stand where appendLine
// puts them. A quote inside of a text is escaped, so none can pass for a member.
func readLink(line []byte) (l link, ok bool) {
	cut := len(line) - hashTail
	if cut < len(seqMark) || !bytes.HasPrefix(line[cut:], []byte(hashMark)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return link{}, false
	}
	h := sha256.New()
	h.Write(line[:cut])
	h.Write([]byte{'}'})
	var sum [2 * sha256.Size]byte
	hex.Encode(sum[:], h.Sum(nil))
	if string(sum[:]) != string(line[cut+len(hashMark):len(line)-2]) {
		return link{}, false
	}
	l.Hash = string(sum[:])
	body, isRecord := strings.CutPrefix(string(line[:cut]), seqMark)
	seq, body, hasTime := strings.Cut(body, `,"at":"`)
	_, body, hasThread := strings.Cut(body, `","thread":"`)
	thread, _, _ := strings.Cut(body, `"`)
	l.Thread = schemas.ThreadID(thread)
	at := strings.LastIndex(body, `,"prev":"`)
	if !isRecord || !hasTime || !hasThread || at < 0 {
		return link{}, false
	}
	l.Prev, ok = strings.CutSuffix(body[at+len(`,"prev":"`):], `"`)
	if _, torn, has := strings.Cut(body[:at], `,"torn":`); has {
		l.Torn = count(torn)
	}
	l.Seq = count(seq)
	return l, ok && l.Seq > 0 && l.Torn >= 0
}

// count reads a number up to maxSeq; everything else is -1.
func count(digits string) int64 {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > maxSeq {
		return -1
	}
	return int64(n)
}

// unfinished reports whether line can be what a crash left of a record: its beginning, or zeros where the file system
// had made room for it. A whole line that somebody changed is not.
func unfinished(line []byte) bool {
	text := bytes.TrimRight(line, "\x00")
	if len(text) < len(seqMark) {
		return bytes.HasPrefix([]byte(seqMark), text)
	}
	return len(line) <= maxLine && bytes.HasPrefix(text, []byte(seqMark)) && (len(text) < len(line) || !bytes.HasSuffix(text, []byte(`"}`)))
}
