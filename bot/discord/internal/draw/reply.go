package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bobbin/bot"
	"bobbin/bot/discord/internal/wire"
	"bobbin/schemas"
)

// Bounds of what we send for one reply, below Discord's own.
const (
	maxMessages = 3
	maxTexts    = 16   // text displays in a message
	room        = 3800 // of wire.MaxText
	plainRoom   = 1900 // of wire.MaxContent
	inline      = 2600 // of one code block; a longer one is a file
	preview     = 1200 // of a text that became a file
)

// Reply draws a reply as one message, or a few when it is long; what would take more than three becomes a file. Choices and the
// form's button are on the last one. A short plain answer is a plain message, all else has Components V2.
func Reply(r bot.Reply, p Pen) []wire.Outgoing {
	if a := answerOf(r); a != nil {
		return Answer(r, *a, p)
	}
	parts := pieces(r.Blocks)
	rows := p.rows(r)
	if len(parts) == 0 && len(rows) > 0 {
		title := "a form to fill in"
		if r.Form != nil && r.Form.Title != "" {
			title = r.Form.Title
		}
		parts = []piece{{text: Escape(title)}}
	}
	if len(parts) == 0 {
		parts = []piece{{text: "done"}}
	}
	if !r.Expires.IsZero() && len(r.Choices) > 0 {
		parts = append(parts, piece{text: fmt.Sprintf("-# open until <t:%d:t>", r.Expires.Unix()), quiet: true})
	}
	if out, ok := p.plain(r, parts, rows); ok {
		return []wire.Outgoing{out}
	}
	return p.pack(parts, rows)
}

// plain draws what is nothing but a few lines of text, which is then found by search and read in a notification.
func (p Pen) plain(r bot.Reply, parts []piece, rows []wire.Component) (wire.Outgoing, bool) {
	if p.V2 || len(rows) > 0 {
		return wire.Outgoing{}, false
	}
	var texts []string
	for _, x := range parts {
		if x.file != nil {
			return wire.Outgoing{}, false
		}
		texts = append(texts, x.markdown())
	}
	for _, b := range r.Blocks {
		if b.Diff != "" || len(b.Facts) > 0 || b.Table != nil {
			return wire.Outgoing{}, false
		}
	}
	content := strings.Join(texts, "\n")
	if size(content) > plainRoom {
		return wire.Outgoing{}, false
	}
	return wire.Outgoing{Content: content, Flags: wire.SuppressEmbeds | p.private()}, true
}

func (p Pen) private() int {
	if p.Private {
		return wire.Ephemeral
	}
	return 0
}

// rows are the things to press.
func (p Pen) rows(r bot.Reply) []wire.Component {
	var rows []wire.Component
	var buttons []wire.Component
	if links := links(r.Blocks); len(links) > 0 {
		rows = append(rows, wire.Component{Type: wire.ActionRow, Components: links})
	}
	if r.Form != nil && r.ID != "" {
		buttons = append(buttons, wire.Component{Type: wire.Button, Style: wire.Primary, Label: label(openLabel(r.Form)), CustomID: p.Mint(Open, bot.Choice{})})
	}
	if len(r.Choices)+len(buttons) <= wire.MaxButtons {
		for _, c := range r.Choices {
			style := map[string]int{"primary": wire.Primary, "danger": wire.Danger}[c.Style]
			buttons = append(buttons, wire.Component{Type: wire.Button, Style: cmp.Or(style, wire.Secondary), Label: label(c.Label), CustomID: p.Mint(Choose, c)})
		}
	}
	if len(buttons) > 0 {
		rows = append(rows, wire.Component{Type: wire.ActionRow, Components: buttons})
	}
	if len(r.Choices)+len(buttons) <= wire.MaxButtons || len(r.Choices) <= wire.MaxButtons-1 {
		return rows
	}
	for first := 0; first < len(r.Choices) && first < 4*wire.MaxOptions; first += wire.MaxOptions {
		var options []wire.SelectOption
		for i, c := range r.Choices[first:min(first+wire.MaxOptions, len(r.Choices))] {
			options = append(options, wire.SelectOption{Label: short(visible(c.Label, true), wire.MaxOptionText), Value: strconv.Itoa(first + i)})
		}
		rows = append(rows, wire.Component{Type: wire.ActionRow, Components: []wire.Component{{Type: wire.StringSelect, CustomID: p.Mint(Pick, bot.Choice{}),
			Placeholder: "choose one", Options: options}}})
	}
	return rows
}

func label(s string) string { return short(visible(s, true), wire.MaxButtonLabel) }

func openLabel(f *bot.Form) string {
	return cmp.Or(map[string]string{"": "Fill in the form", "Send": "Fill in the form", "Next": "Fill in the form", "Call": "Fill in and call"}[f.Submit], f.Submit)
}

// pack puts pieces into as few messages as hold them, at most three; what is left over goes into files.
func (p Pen) pack(parts []piece, rows []wire.Component) []wire.Outgoing {
	parts = filed(parts)
	var all []wire.Outgoing
	m := p.message()
	used, texts := 0, 0
	flush := func() {
		all = append(all, m.done(p))
		m, used, texts = p.message(), 0, 0
	}
	for i, x := range parts {
		if x.file != nil {
			m.attach(*x.file, p)
			continue
		}
		for _, one := range x.split(room) {
			text := one.markdown()
			if used > 0 && (used+size(text) > room || texts >= maxTexts) && len(all) < maxMessages-1 {
				flush()
			}
			if used+size(text) > room+100 || texts >= maxTexts {
				continue // only after filed made them fit, in a message of many small parts
			}
			m.text(text, one.code != "" || i == 0)
			used, texts = used+size(text), texts+1
		}
	}
	m.rows = rows
	return append(all, m.done(p))
}

func total(parts []piece) int {
	n := 0
	for _, x := range parts {
		n += size(x.markdown())
	}
	return n
}

// filed makes files of long code blocks, then of the longest texts until the rest fits into the messages.
func filed(parts []piece) []piece {
	var out, files []piece
	for _, x := range parts {
		if x.code == "" || size(x.code) <= inline || len(files) == wire.MaxFiles-2 {
			out = append(out, x)
			continue
		}
		start, file := x.asFile()
		out, files = append(out, start...), append(files, file)
	}
	for len(files) < wire.MaxFiles-1 && total(out) > maxMessages*room {
		big := 0
		for i, x := range out {
			if size(x.markdown()) > size(out[big].markdown()) {
				big = i
			}
		}
		if size(out[big].markdown()) <= 2*preview {
			break
		}
		start, file := out[big].asFile()
		out, files = slices.Concat(out[:big], start, out[big+1:]), append(files, file)
	}
	return append(remains(out), files...)
}

// asFile is the beginning of a text, with a line that names the file which has all of it.
func (x piece) asFile() (start []piece, file piece) {
	data, name, what := x.code, cmp.Or(x.name, "text.txt"), cmp.Or(x.what, "the text")
	if x.code == "" {
		data = unescape.Replace(x.text)
	}
	f := schemas.File{Name: name, MIME: "text/plain; charset=utf-8", Data: []byte(visible(data, false))}
	note := fmt.Sprintf("-# so %s begins; the %s characters of it are in the file %s", what, thousands(len([]rune(data))), Span(name))
	return []piece{x.split(preview)[0], {text: note, quiet: true}}, piece{file: &f}
}

// remains puts what is too much for three messages even so, many small parts, into one more file.
func remains(parts []piece) []piece {
	used := 0
	for i, x := range parts {
		if used += size(x.markdown()) + 1; x.file != nil || used <= maxMessages*room-preview && i < maxMessages*maxTexts-4 {
			continue
		}
		if total(parts) <= maxMessages*room && len(parts) <= maxMessages*maxTexts-4 {
			break
		}
		var rest strings.Builder
		var files []piece
		for _, y := range parts[i:] {
			if y.file != nil {
				files = append(files, y)
				continue
			}
			rest.WriteString(cmp.Or(y.code, unescape.Replace(y.text)) + "\n")
		}
		f := schemas.File{Name: "rest.txt", MIME: "text/plain; charset=utf-8", Data: []byte(visible(rest.String(), false))}
		return slices.Concat(parts[:i], []piece{{text: "-# the rest is in the file `rest.txt`"}}, files, []piece{{file: &f}})
	}
	return parts
}

// unescape turns our own markdown back into plain text, for files.
var unescape = strings.NewReplacer(`\*`, "*", `\_`, "_", `\~`, "~", `\|`, "|", `\<`, "<", `\[`, "[", `\#`, "#", `\>`, ">", `\-`, "-", `\@`, "@", `\:`, ":", `\.`, ".", `\\`, `\`,
	"**", "", "-# ", "")

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// sheet is a Components V2 message in the making.
type sheet struct {
	inside []wire.Component
	files  []wire.OutFile
	alts   []wire.Attached
	rows   []wire.Component
	bytes  int
}

func (p Pen) message() sheet { return sheet{} }

func (m *sheet) text(s string, own bool) {
	last := len(m.inside) - 1
	if last >= 0 && m.inside[last].Type == wire.TextDisplay && !own && !strings.HasSuffix(m.inside[last].Content, "```") {
		m.inside[last].Content += "\n" + s
		return
	}
	m.inside = append(m.inside, wire.Component{Type: wire.TextDisplay, Content: s})
}

// attach adds a file, or says why not.
func (m *sheet) attach(f schemas.File, p Pen) {
	limit := cmp.Or(p.Upload, wire.MaxUpload)
	name := fileName(f.Name)
	if len(f.Data) > limit || len(m.files) == wire.MaxFiles || m.bytes+len(f.Data) > wire.MaxRequest-1<<20 {
		m.text(fmt.Sprintf("the file %s has %s bytes, more than Discord takes here, so it is not attached", Span(name), thousands(len(f.Data))), false)
		return
	}
	for i := 2; slices.ContainsFunc(m.files, func(o wire.OutFile) bool { return o.Name == name }); i++ {
		name = strconv.Itoa(i) + "-" + fileName(f.Name)
	}
	m.bytes += len(f.Data)
	m.alts = append(m.alts, wire.Attached{ID: strconv.Itoa(len(m.files)), Filename: name, Description: short(fmt.Sprintf("%s, %s bytes", name, thousands(len(f.Data))), 1000)})
	m.files = append(m.files, wire.OutFile{Name: name, MIME: f.MIME, Data: f.Data})
	m.inside = append(m.inside, wire.Component{Type: wire.FileDisplay, File: &wire.Media{URL: "attachment://" + name}})
}

// fileName keeps what Discord keeps of a file's name, so that the message can refer to it.
func fileName(s string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z') {
			return r
		}
		return '-'
	}, s)
	name = strings.TrimLeft(name, ".-")
	return cmp.Or(name[max(0, len(name)-80):], "file.txt")
}

func (m *sheet) done(p Pen) wire.Outgoing {
	box := append(m.inside, m.rows...)
	return wire.Outgoing{
		Flags:      wire.ComponentsV2 | p.private(),
		Components: []wire.Component{{Type: wire.Container, Components: box}},
		Files:      m.files, Attachments: m.alts,
	}
}

// Settled draws a card once more after it was answered: what it was about in short, without anything to press, how it ended, and
// under it what came of it, which may have choices of its own.
func Settled(card bot.Reply, how string, then bot.Reply, p Pen) []wire.Outgoing {
	var kept []bot.Block
	for _, b := range card.Blocks {
		if b.Text != "" && len(kept) == 0 {
			head, _, _ := strings.Cut(b.Text, "\n")
			kept = append(kept, bot.Block{Text: head})
		}
	}
	parts := pieces(kept)
	if how != "" {
		parts = append(parts, piece{text: "-# " + strings.ReplaceAll(Escape(how), "\n", " ")})
	}
	p.V2 = true
	return p.pack(append(parts, pieces(then.Blocks)...), p.rows(then))
}

// Line draws one line of ours, such as progress. Untrusted text in it is already clean.
func Line(text string, p Pen) wire.Outgoing {
	return Reply(bot.Reply{Blocks: []bot.Block{{Text: text}}}, p)[0]
}
