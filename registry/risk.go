package registry

import (
	"slices"
	"strings"
	"unicode"
)

// The risks that policy denies by default (schemas.Tool.Risk).
const (
	riskShell       = "shell"
	riskFiles       = "file system"
	riskDestructive = "destructive"
)

// vocabulary of tool names, by word.
type vocabulary struct{ shell, runs, code, writes, reads, opens, files, fileVerbs, fileWords, destroys, disks, joins []string }

func vocab() vocabulary {
	f := strings.Fields
	return vocabulary{
		shell:     f("exec shell command cmd terminal bash zsh powershell pwsh eval spawn subprocess sudo"),
		runs:      f("run execute start launch exec eval kill create"),
		code:      f("code script python javascript js node ruby perl program binary executable process job"),
		writes:    f("write edit create update delete remove move rename set add insert put post send push upload drop destroy wipe purge truncate kill format exec execute run merge close save patch replace install publish deploy cancel submit append copy clear reset modify change grant revoke"),
		reads:     f("get list read search find describe show view fetch query stat count check is has lookup"),
		opens:     f("read cat open download view load"),
		files:     f("file files dir dirs directory directories folder folders path paths fs filesystem disk"),
		fileVerbs: f("write edit move delete create upload remove rename append copy put save overwrite replace patch make modify truncate push update"),
		fileWords: f("mkdir rmdir unlink chmod chown rm"),
		destroys:  f("delete drop destroy wipe purge truncate kill"),
		disks:     f("disk disks drive drives volume volumes partition partitions"),
		joins:     f("or and then"),
	}
}

func anyOf(name []string, set []string) bool {
	return slices.ContainsFunc(name, func(w string) bool { return slices.Contains(set, w) })
}

// speaksAgainst reports whether a name contradicts a read-only hint.
func speaksAgainst(name string) bool {
	ws, v := split(name), vocab()
	if len(ws) > 0 && slices.Contains(v.reads, ws[0]) {
		return anyOf(ws, v.joins) && anyOf(ws[1:], v.writes)
	}
	return anyOf(ws, v.writes) || anyOf(ws, v.shell)
}

// risk classifies a tool by its name's words and by the hints that make it worse.
func risk(name string, h hints) string {
	ws, v := split(name), vocab()
	reading := len(ws) > 0 && slices.Contains(v.reads, ws[0]) && h.ReadOnly && !speaksAgainst(name)
	destructive := h.Destructive != nil && *h.Destructive && !h.ReadOnly
	switch {
	case !reading && (anyOf(ws, v.shell) || anyOf(ws, v.runs) && anyOf(ws, v.code) || len(ws) > 0 && ws[len(ws)-1] == "process"):
		return riskShell
	case anyOf(ws, v.files) && anyOf(ws, v.fileVerbs) && !reading,
		anyOf(ws, v.files) && anyOf(ws, v.opens) && !h.ReadOnly,
		anyOf(ws, v.fileWords):
		return riskFiles
	case destructive, !reading && (anyOf(ws, v.destroys) || formats(ws, v.disks)):
		return riskDestructive
	}
	return ""
}

// formats reports whether a disk is what a name formats: code, dates and text are formatted every day.
func formats(ws, disks []string) bool {
	at := slices.Index(ws, "format")
	return at >= 0 && anyOf(ws[at+1:], disks)
}

// split cuts a tool's name into lower-case words at anything that is no letter or digit, and at camelCase.
func split(name string) []string {
	var ws []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			ws = append(ws, strings.ToLower(string(word)))
			word = nil
		}
	}
	rs := []rune(name)
	for i, r := range rs {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			continue
		}
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(rs[i-1]) || unicode.IsDigit(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1]) && unicode.IsUpper(rs[i-1])) {
			flush()
		}
		word = append(word, r)
	}
	flush()
	return ws
}
