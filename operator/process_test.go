package operator_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"bobbin/internal/durable"
	"bobbin/operator"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("OPERATOR_CHILD"); dir != "" {
		if err := child(dir, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child changes its own entries without an end, and says each change that is done.
func child(dir, who string) error {
	data, err := durable.Open(dir)
	if err != nil {
		return err
	}
	o, err := operator.New(operator.Options{Data: data, Secrets: &safe{}})
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s-%d", who, n%3)
		if err := put(context.Background(), o, operator.Server{Name: name, BaseImage: "b", Command: strconv.Itoa(n)}); err != nil {
			return err
		}
		fmt.Println(name, n)
	}
}

func TestChange_Processes(t *testing.T) { // 1,000 changes of several processes, each killed at some point: nothing that was said is lost
	d := open(t, document)
	d.must(d.Seal(t.Context()))
	said := map[string]int{}
	const rounds, each = 4, 250
	for round := range rounds {
		var all [2]*exec.Cmd
		var lines [2]*bufio.Scanner
		for i := range all {
			all[i] = exec.Command(os.Args[0], fmt.Sprintf("r%dp%d", round, i))
			all[i].Env, all[i].Stderr = append(os.Environ(), "OPERATOR_CHILD="+d.dir), os.Stderr
			out, err := all[i].StdoutPipe()
			d.must(err)
			d.must(all[i].Start())
			lines[i] = bufio.NewScanner(out)
		}
		for range each / 2 {
			for _, l := range lines {
				if !l.Scan() {
					t.Fatal("a process ended")
				}
				name, n, _ := strings.Cut(l.Text(), " ")
				said[name], _ = strconv.Atoi(n)
			}
		}
		for i, c := range all {
			_ = c.Process.Kill()
			for lines[i].Scan() { // said before its end
				name, n, _ := strings.Cut(lines[i].Text(), " ")
				said[name], _ = strconv.Atoi(n)
			}
			_ = c.Wait()
		}
		f := d.load()
		for name, n := range said {
			s, ok := f.Find(name)
			got, _ := strconv.Atoi(s.Command)
			if !ok || got < n || got > n+3 {
				t.Fatalf("%s is %q after %d was said", name, s.Command, n)
			}
		}
		if len(f.Problems) > 0 {
			t.Fatal(f.Problems)
		}
	}
	if !strings.Contains(d.text(), "# Optional, defaults to standard proxy image") {
		t.Error("a comment is lost")
	}
	d.must(put(t.Context(), d.Operator, operator.Server{Name: "last", BaseImage: "b"})) // no lock stays
}
