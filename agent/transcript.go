package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	fileTranscript = "transcript.jsonl"
	lockTurn       = "turn" // held for an answer, against another bobbin
	maxTranscript  = 64 << 20
	largeImages    = 24 << 20 // bytes of a transcript above which pictures are given up
	lockTime       = 5 * time.Second

	wordsRestarted = "bobbin was restarted before this was answered"
)

// transcript is what was said in one thread, on disk: one Message a line, the newest last. What Append returned for survives a
// killed process and a power cut. A line that a crash left unfinished is dropped. It belongs to one goroutine.
type transcript struct {
	dir      *durable.Dir
	messages []Message
	size     int64
	unlock   func()
}

// open reads a thread's transcript and keeps others out until close. What an answer before left unfinished is completed, so that
// providers accept it.
func (a *Agent) open(ctx context.Context, id schemas.ThreadID) (*transcript, error) {
	broken := func(err error) error {
		return &schemas.Error{Code: schemas.CodeUnreadable, Text: "what was said here before cannot be read", Hint: "`/chat reset` begins anew", Err: err}
	}
	dir, err := a.opt.Chats.Sub(string(id))
	if err != nil {
		return nil, broken(err)
	}
	t := &transcript{dir: dir}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	if t.unlock, err = dir.Lock(ctx, lockTurn); err != nil {
		_ = dir.Close()
		return nil, &schemas.Error{Code: schemas.CodeNotReady, Text: "another bobbin answers in this thread just now", Err: err}
	}
	bad, err := t.load()
	if err != nil {
		t.close()
		return nil, broken(err)
	}
	if bad > 0 {
		a.opt.Log.Warn("lines of a transcript could not be read and were left out", "thread", id, "lines", bad)
	}
	return t, nil
}

func (t *transcript) close() {
	t.unlock()
	_ = t.dir.Close() // it was only read from
}

// load reads the file; bad is how many lines were left out. The file holds what messages does when it returns.
func (t *transcript) load() (bad int, err error) {
	raw, err := t.dir.Read(fileTranscript, maxTranscript)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	read, bad, whole := decode(raw)
	t.messages = repair(read)
	t.size = int64(len(raw))
	pictures := false
	if len(raw) > largeImages {
		pictures = dropImages(t.messages, 0, 0)
	}
	if bad == 0 && whole && !pictures && len(t.messages) == len(read) {
		return 0, nil
	}
	if bad == 0 && whole && !pictures && len(t.messages) > len(read) && same(t.messages[:len(read)], read) {
		added := t.messages[len(read):]
		t.messages = t.messages[:len(read):len(read)]
		return 0, t.append(added...)
	}
	return bad, t.rewrite(t.messages)
}

// decode reads the lines of a transcript; whole is false when the last one is unfinished.
func decode(raw []byte) (messages []Message, bad int, whole bool) {
	whole = true
	for len(raw) > 0 {
		line, rest, ended := bytes.Cut(raw, []byte("\n"))
		if !ended {
			return messages, bad, false
		}
		raw = rest
		var m Message
		if json.Unmarshal(line, &m) != nil || m.Role != User && m.Role != Assistant {
			bad++
			continue
		}
		messages = append(messages, m)
	}
	return messages, bad, whole
}

func encode(messages []Message) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, m := range messages {
		if err := e.Encode(m); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// append adds messages at the end, in one write, and waits for the disk.
func (t *transcript) append(messages ...Message) error {
	raw, err := encode(messages)
	if err != nil {
		return err
	}
	if t.size+int64(len(raw)) > maxTranscript {
		dropImages(t.messages, 0, 0)
		if err := t.rewrite(t.messages); err != nil {
			return err
		}
		if t.size+int64(len(raw)) > maxTranscript {
			return fmt.Errorf("the transcript has %d bytes already", t.size)
		}
	}
	f, err := t.dir.Append(fileTranscript)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(raw); err != nil {
		_ = f.Truncate(t.size) // the lock of the turn keeps others away
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	t.size += int64(len(raw))
	t.messages = append(t.messages, messages...)
	return nil
}

// rewrite puts other messages in the place of all.
func (t *transcript) rewrite(messages []Message) error {
	raw, err := encode(messages)
	if err != nil {
		return err
	}
	if err := t.dir.Write(fileTranscript, raw); err != nil && !errors.Is(err, durable.ErrUnsynced) {
		return err
	}
	t.messages, t.size = messages, int64(len(raw))
	return nil
}
