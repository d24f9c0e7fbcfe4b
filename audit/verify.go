package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"bobbin/schemas"
)

const notWritten = "it is not a record as it was written: the line was changed or inserted"

// Verify reads a thread's log from its first line and reports the first line that does not belong: changed, removed,
// inserted or moved ones, and a cut beginning or end. A line that a crash left unfinished is accepted if it is the last, or
// if the record after it says so (torn). Why is also set, with OK true, when there were such lines. It holds one line in
// memory, takes no lock and may run while records are added.
func (l *Log) Verify(ctx context.Context, id schemas.ThreadID) (schemas.Verdict, error) {
	verdict := schemas.Verdict{Thread: id}
	if !id.Valid() {
		return verdict, badThread()
	}
	if !l.users.Has(string(id)) {
		verdict.OK = true
		return verdict, nil
	}
	dir, err := l.users.Sub(string(id))
	if err != nil {
		return verdict, unreadable(err)
	}
	defer dir.Close()
	// The head first: it may move on meanwhile, but never ahead of the log.
	h, headErr := readHead(dir)
	f, size, err := l.openRead(id)
	if err != nil {
		return verdict, err
	}
	c := chain{head: h, thread: id}
	if f != nil {
		defer f.Close()
		if err := c.read(ctx, io.NewSectionReader(f, 0, size)); err != nil {
			return verdict, unreadable(err)
		}
	}
	c.finish(headErr)
	verdict.Records, verdict.OK, verdict.Line, verdict.Why = c.records, c.bad == 0, c.bad, c.why
	return verdict, nil
}

// chain is the state of a check: what the next line must fit to.
type chain struct {
	thread  schemas.ThreadID
	head    head
	line    int // number of the line at hand
	records int64
	last    link
	junk    int64 // bytes since the last record that are no record
	junkAt  int   // line of the first of them
	strange bool  // they are not what a crash leaves
	torn    int   // accepted unfinished lines
	bad     int   // first bad line
	why     string
	lost    int64 // a bad line made us miss this record; it may stand further down
}

func (c *chain) fail(line int, format string, args ...any) {
	if c.bad == 0 {
		c.bad, c.why = max(line, 1), fmt.Sprintf(format, args...)
	}
}

func (c *chain) read(ctx context.Context, r io.Reader) error {
	b := bufio.NewReaderSize(r, maxRead)
	size, long := int64(0), false
	for ctx.Err() == nil {
		line, err := b.ReadSlice('\n')
		size += int64(len(line))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = true
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		if size > 0 {
			c.line++
			c.step(bytes.TrimSuffix(line, []byte{'\n'}), size, long)
		}
		if err != nil {
			return nil
		}
		size, long = 0, false
	}
	return ctx.Err()
}

// step judges a line without its newline, which has size bytes with it. Of a long one only the end is there.
func (c *chain) step(line []byte, size int64, long bool) {
	l, ok := readLink(line)
	if !ok || long {
		if c.junk == 0 {
			c.junkAt, c.strange = c.line, false
		}
		c.junk += size
		c.strange = c.strange || long || !unfinished(line)
		return
	}
	c.records++
	switch {
	case c.bad > 0:
		if c.lost > 0 && l.Seq == c.lost {
			c.why += fmt.Sprintf("; record %d stands in line %d: the lines were reordered", c.lost, c.line)
			c.lost = 0
		}
	case c.junk > 0 && (c.strange || c.junk != l.Torn):
		c.fail(c.junkAt, notWritten)
	case c.junk != l.Torn:
		c.fail(c.line, "an unfinished line before it was removed")
	case l.Thread != c.thread:
		c.fail(c.line, "it is from the log of another thread")
	default:
		c.order(l)
	}
	if c.junk > 0 {
		c.torn++
	}
	c.last, c.junk, c.strange = l, 0, false
	if l.Seq == c.head.Seq && l.Hash != c.head.Hash {
		c.fail(c.line, "record %d is not the one that was seen before: the log was rewritten", l.Seq)
	}
}

// order checks the place of a record that is whole in itself.
func (c *chain) order(l link) {
	want := c.last.Seq + 1
	switch {
	case l.Seq == want && l.Prev == c.last.Hash:
	case l.Seq > want && c.last.Seq == 0:
		c.fail(c.line, "the log begins with record %d: the lines before were removed", l.Seq)
		c.lost = want
	case l.Seq > want+1:
		c.fail(c.line, "records %d to %d before it are missing: lines were removed", want, l.Seq-1)
		c.lost = want
	case l.Seq > want:
		c.fail(c.line, "record %d before it is missing: a line was removed", want)
		c.lost = want
	case l.Seq == want:
		c.fail(c.line, "it does not follow the line before it: one of them was inserted or replaced")
	default:
		c.fail(c.line, "record %d comes after record %d: a line was inserted or moved", l.Seq, c.last.Seq)
	}
}

// finish looks at the end and at the head.
func (c *chain) finish(headErr error) {
	if c.junk > 0 {
		if c.strange {
			c.fail(c.junkAt, notWritten)
		}
		c.torn++
	}
	if c.last.Seq < c.head.Seq {
		c.fail(c.line+1, "the log ends at %d, but %d was seen: lines were removed at the end", c.last.Seq, c.head.Seq)
	}
	if headErr != nil {
		c.fail(c.line+1, "%s beside the log is damaged: whether lines were cut off at the end cannot be told", headName)
	}
	if c.bad == 0 && c.torn > 0 {
		c.why = fmt.Sprintf("%d unfinished by a crash, which is harmless", c.torn)
	}
}
