package terminal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"bobbin/bot"
	"bobbin/schemas"
)

// maxUpload is far above what the bot takes of a file, so that the bot words the refusal; so is maxAttached, of files of a message.
const (
	maxUpload   = 6 << 20
	maxAttached = 12
)

// upload reads the file that a person named at their own terminal and hands it over under its base name.
func (d *Door) upload(line string) (bot.Request, func(*bot.Reply), bool) {
	path := strings.Trim(strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(line, "/mcp"), " upload")), `"'`)
	if path == "" {
		return bot.Request{Text: "/mcp upload"}, nil, true
	}
	data, err := readFile(expand(path))
	if err != nil {
		d.show(refusal(path+": "+plain(err), "check the path; `/mcp upload PATH` reads a file of this machine"))
		return bot.Request{}, nil, false
	}
	return bot.Request{Text: "/mcp upload", File: &schemas.File{Name: filepath.Base(path), Data: data}}, nil, true
}

// named is a path in a message, behind an @: ./plan.txt, ~/a.png, /tmp/log, C:\x, or "./with a space".
var named = regexp.MustCompile(`(?:^|\s)@(?:"([^"]+)"|((?:\.{0,2}|~)[/\\]\S+|[A-Za-z]:[/\\]\S+))`)

// attached reads the files that a message names. What cannot be read is said, and the message is not sent.
func (d *Door) attached(line string) (files []schemas.File, ok bool) {
	for _, m := range named.FindAllStringSubmatch(line, maxAttached+1) {
		path := m[1] + strings.TrimRight(m[2], ".,;:!?)")
		data, err := readFile(expand(path))
		if err != nil {
			d.show(refusal(path+": "+plain(err)+"; your message was not sent", "a path behind an @ is read and goes with the message; leave the @ out for the words alone"))
			return nil, false
		}
		files = append(files, schemas.File{Name: filepath.Base(path), MIME: http.DetectContentType(data), Data: data})
	}
	for _, f := range files {
		d.print(d.draw.dim(fmt.Sprintf("  attached %s · %s", clean(f.Name), size(len(f.Data)))) + "\n")
	}
	return files, true
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("that is not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, int64(max(maxUpload, bot.MaxUpload(path)))+1))
}

// formats are the words after /mcp download that are no path.
var formats = []string{"claude", "vscode", "cursor", "remote", "client"}

// download splits "/mcp download [format] [PATH]" and saves the file of the reply under PATH.
func (d *Door) download(words []string) (bot.Request, func(*bot.Reply), bool) {
	text, path := "/mcp download", ""
	for _, w := range words[2:] {
		if f := strings.TrimPrefix(w, "format:"); slices.Contains(formats, f) {
			text += " " + f
		} else {
			path = strings.TrimSpace(path + " " + w)
		}
	}
	if path == "" {
		return bot.Request{Text: text}, nil, true
	}
	return bot.Request{Text: text}, func(r *bot.Reply) { save(r, strings.Trim(path, `"'`)) }, true
}

// keep is /save [PATH]: it saves the files that the last reply with files brought.
func (d *Door) keep(line string) {
	path := strings.Trim(strings.TrimSpace(strings.TrimPrefix(line, "/save")), `"'`)
	d.mu.Lock()
	r := bot.Reply{Blocks: slices.Clone(d.files)}
	d.mu.Unlock()
	if len(r.Blocks) == 0 {
		r = refusal("there is no file to save", "`/save PATH` saves what the last result brought")
	}
	save(&r, cmp.Or(path, "."))
	d.show(r)
}

// save writes the reply's files and puts a line about each in its place. A file that stands there already is never replaced.
func save(r *bot.Reply, path string) {
	for i, b := range r.Blocks {
		if b.File == nil {
			continue
		}
		target := expand(path)
		if info, err := os.Stat(target); err == nil && info.IsDir() {
			target = filepath.Join(target, filepath.Base(b.File.Name))
		}
		f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.Write(b.File.Data)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			*r = refusal(target+": "+plain(err), "name another file, or a folder")
			return
		}
		r.Blocks[i] = bot.Block{Text: "saved as `" + target + "`"}
	}
}

// expand puts the home folder in the place of a leading ~.
func expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// plain words a file error for a person.
func plain(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		return "you may not open it"
	case errors.Is(err, fs.ErrExist):
		return "there is a file of that name already; it was left alone"
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

func refusal(text, hint string) bot.Reply {
	return bot.Reply{Bad: true, Blocks: []bot.Block{{Text: text + "\n" + hint}}}
}
