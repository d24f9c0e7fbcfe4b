package words

import (
	"fmt"
	"strconv"
	"time"

	"bobbin/schemas"
)

// Thousands writes 5100 as 5,100.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count writes a number with what it counts.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}

// About rounds an estimate to two digits: 5134 → "about 5,100".
func About(n int) string {
	step := 1
	for n/step >= 100 {
		step *= 10
	}
	return "about " + Thousands((n+step/2)/step*step)
}

// Size writes a number of bytes with a unit.
func Size(n int) string {
	switch {
	case n < 1<<10:
		return Count(n, "byte", "bytes")
	case n < 10<<10, n >= 1<<20 && n < 10<<20:
		if n >= 1<<20 {
			return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
		}
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Took writes a time with one unit: "310 ms", "1.2 s", "12 min", "2 h", "3 days".
func Took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "under 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return Count(int(d.Hours()/24), "day", "days")
}

// At writes a member as people write them.
func At(id schemas.MemberID, name string) string {
	if name == "" {
		name = string(id)
	}
	return "@" + Short(Clean(name), 40)
}

// InDoor says where somebody spoke.
func InDoor(d schemas.Door) string {
	return map[schemas.Door]string{schemas.DoorTerminal: " in the terminal", schemas.DoorWeb: " on the page", schemas.DoorDiscord: " in Discord"}[d]
}
