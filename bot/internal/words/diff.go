package words

import (
	"strings"
)

// Diff makes a unified diff fit to be read: its blocks begin where a person would say that the change begins, and what
// is invisible in it is made visible.
func Diff(diff string) string { return JSON(slide(diff)) }

// slide moves each block of added or removed lines, as far as equal lines around it allow, to where its first line is
// indented least and opens something. The two texts that the diff stands between stay the same.
func slide(diff string) string {
	lines := strings.Split(diff, "\n")
	for start := 0; start < len(lines); {
		sign := changed(lines[start])
		end := start
		for end < len(lines) && sign != 0 && changed(lines[end]) == sign {
			end++
		}
		if end == start {
			start++
			continue
		}
		shift := bestShift(lines, start, end)
		for i := min(start, start+shift); i < max(end, end+shift); i++ {
			mark := byte(' ')
			if i >= start+shift && i < end+shift {
				mark = sign
			}
			lines[i] = string(mark) + lines[i][1:]
		}
		start = max(end, end+shift)
	}
	return strings.Join(lines, "\n")
}

// bestShift gives by how many lines a block moves down, or up if it is negative.
func bestShift(lines []string, start, end int) int {
	if start > 0 && changed(lines[start-1]) != 0 || end < len(lines) && changed(lines[end]) != 0 {
		return 0 // one half of a replacement stays beside the other
	}
	best, least := 0, weight(lines[start])
	try := func(shift, first int) {
		if w := weight(lines[first]); w < least {
			best, least = shift, w
		}
	}
	for k := 1; end+k-1 < len(lines) && isContext(lines[end+k-1]) && lines[end+k-1][1:] == lines[start+k-1][1:] && start+k < end+k-1; k++ {
		try(k, start+k)
	}
	for k := 1; start-k >= 0 && isContext(lines[start-k]) && lines[start-k][1:] == lines[end-k][1:]; k++ {
		try(-k, start-k)
	}
	return best
}

// weight is less the more a line looks like the begin of something.
func weight(line string) int {
	text := strings.TrimLeft(line[1:], " \t")
	w := 2 * (len(line) - 1 - len(text))
	if strings.HasPrefix(text, "}") || strings.HasPrefix(text, "]") {
		w++
	}
	return w
}

func changed(line string) byte {
	if line != "" && (line[0] == '+' || line[0] == '-') {
		return line[0]
	}
	return 0
}

func isContext(line string) bool { return line != "" && line[0] == ' ' }
