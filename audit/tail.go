package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"bobbin/internal/durable"
	"bobbin/schemas"
)

const (
	firstBlock = 4 << 10
	maxBlock   = 1 << 20
	maxTail    = 1000     // records
	maxHeld    = 4 << 20  // bytes of lines that Tail decodes
	maxScan    = 64 << 20 // bytes that Tail looks through
	maxRead    = 64 << 10 // bytes of one line that we read
)

// ending is how a log ends.
type ending struct {
	last link  // the last whole record; zero if there is none
	torn int64 // bytes after it, if a crash can have left them
	cut  bool  // no newline at the end
}

// readEnd looks at no more than the last MiB.
func readEnd(f io.ReaderAt, size int64) (ending, error) {
	if size == 0 {
		return ending{}, nil
	}
	for block := int64(firstBlock); ; block *= 4 {
		block = min(block, size)
		data := make([]byte, block)
		if _, err := f.ReadAt(data, size-block); err != nil && !errors.Is(err, io.EOF) {
			return ending{}, err
		}
		end, ok := endOf(data, block == size)
		if ok || block == size || block >= maxBlock {
			return end, nil
		}
	}
}

// endOf finds the last record in data; whole says that data is the whole file.
func endOf(data []byte, whole bool) (end ending, ok bool) {
	end.cut = data[len(data)-1] != '\n'
	rest := bytes.TrimSuffix(data, []byte{'\n'})
	after, torn := 0, true // bytes of data that rest no longer holds
	for {
		at := bytes.LastIndexByte(rest, '\n')
		if at < 0 && !whole {
			return end, false
		}
		line := rest[at+1:]
		if end.last, ok = readLink(line); ok {
			break
		}
		torn = torn && unfinished(line)
		after = len(data) - at - 1
		if at < 0 {
			break
		}
		rest = rest[:at]
	}
	if torn && after > 0 {
		end.torn = int64(after)
		if end.cut {
			end.torn++ // the newline that the next writer adds
		}
	}
	return end, true
}

// Tail gives the last n records of a thread, at most 1000, newest first, and fewer where they are not within the last 64 MiB or
// have more than 4 MiB. Lines that are no records are passed over; Verify tells about them. A thread without a log has none.
func (l *Log) Tail(ctx context.Context, id schemas.ThreadID, n int) ([]schemas.Record, error) {
	f, size, err := l.openRead(id)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	n = min(n, maxTail)
	var (
		found []schemas.Record
		rest  []byte // the beginning of a line that the block before holds the end of
		held  int
		block = make([]byte, maxRead)
	)
	for at := size; at > max(0, size-maxScan) && len(found) < n && held < maxHeld; {
		if err := ctx.Err(); err != nil {
			return nil, unreadable(err)
		}
		part := block[:min(at, int64(len(block)))]
		at -= int64(len(part))
		if _, err := f.ReadAt(part, at); err != nil && !errors.Is(err, io.EOF) {
			return nil, unreadable(err)
		}
		data := append(bytes.Clone(part), rest...)
		for len(found) < n {
			cut := bytes.LastIndexByte(data, '\n')
			if cut < 0 && at > 0 {
				break
			}
			var rec schemas.Record
			line := data[cut+1:]
			if len(line) > 0 && len(line) <= maxRead && json.Unmarshal(line, &rec) == nil && rec.Seq > 0 {
				found = append(found, rec)
				held += len(line)
			}
			if cut < 0 {
				break
			}
			data = data[:cut]
		}
		if len(data) > maxRead {
			data = data[:maxRead] // no line of ours; what is kept of it cannot be read as one
		}
		rest = data
	}
	return found, nil
}

// openRead opens a log for reading and makes nothing. A missing one is a nil file.
func (l *Log) openRead(id schemas.ThreadID) (*os.File, int64, error) {
	if !id.Valid() {
		return nil, 0, badThread()
	}
	if !l.users.Has(string(id)) {
		return nil, 0, nil
	}
	dir, err := l.users.Sub(string(id))
	if err != nil {
		return nil, 0, unreadable(err)
	}
	defer dir.Close()
	f, info, err := openPath(filepath.Join(dir.Path(), logName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, unreadable(err)
	}
	return f, info.Size(), nil
}

// head is the last record that is known to be on the disk.
type head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// readHead gives the zero head when there is none.
func readHead(dir *durable.Dir) (head, error) {
	data, err := dir.Read(headName, firstBlock)
	if errors.Is(err, fs.ErrNotExist) {
		return head{}, nil
	}
	if err != nil {
		return head{}, err
	}
	var h head
	if err := json.Unmarshal(data, &h); err != nil {
		return head{}, err
	}
	if h.Seq < 1 || h.Seq > maxSeq || len(h.Hash) != 64 {
		return head{}, errors.New("not a head")
	}
	return h, nil
}

func unreadable(err error) error {
	return &schemas.Error{Code: schemas.CodeUnreadable, Text: "the audit log cannot be read", Hint: "ask the operator to look at the data folder", Err: err}
}
