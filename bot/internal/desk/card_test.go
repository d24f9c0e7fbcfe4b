package desk

import (
	"strconv"
	"testing"
	"time"
)

func TestDeck_TakenOnce(t *testing.T) {
	d := deck{open: map[string]*Card{}}
	c := &Card{Expires: time.Unix(100, 0)}
	d.put("n", c, time.Unix(0, 0))
	if d.get("n", "", time.Unix(1, 0)) != c || !d.take("n", c) || d.take("n", c) {
		t.Error("a card that two hold is taken by one")
	}
	for i := range 2 * maxCards {
		d.put(strconv.Itoa(i), &Card{Expires: time.Unix(int64(100+i), 0)}, time.Unix(0, 0))
	}
	if len(d.open) != maxCards || d.get("127", "", time.Unix(1, 0)) == nil {
		t.Errorf("%d cards of one member", len(d.open))
	}
	d.put("last", c, time.Unix(1000, 0))
	if len(d.open) != 1 {
		t.Error("expired cards, and the secrets in them, stay in memory")
	}
}
