package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

const swiftID = `"id":`

// swiftAnswer gives the answer to a line as fast as there may be one: nothing is decoded.
func swiftAnswer(line []byte) []byte {
	_, rest, ok := bytes.Cut(line, []byte(swiftID))
	if !ok {
		return nil
	}
	id := rest[:bytes.IndexAny(rest, ",}")]
	switch {
	case bytes.Contains(line, []byte(`"initialize"`)):
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"swift","version":"1"}}}`, id)
	case bytes.Contains(line, []byte(`"tools/list"`)):
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"big","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}`, id)
	case bytes.Contains(line, []byte(`"server/discover"`)):
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, id)
	case bytes.Contains(line, []byte(`"tools/call"`)):
		text := swiftEcho
		if bytes.Contains(line, []byte(`"big"`)) {
			text = swiftBig()
		}
		out := make([]byte, 0, len(text)+100)
		out = append(append(out, `{"jsonrpc":"2.0",`+swiftID...), id...)
		return append(append(append(out, `,"result":{"content":[{"type":"text","text":"`...), text...), `"}]}}`...)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
}

const swiftEcho = "the quick brown fox jumps over the lazy dog" // 43 bytes

var swiftBig = sync.OnceValue(func() string { return strings.Repeat("0123456789abcdef", 1024) })

// swiftMCP is a server over stdio.
func swiftMCP() int {
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0
		}
		if answer := swiftAnswer(line); answer != nil {
			_, _ = out.Write(append(answer, '\n'))
		}
		if in.Buffered() == 0 {
			_ = out.Flush()
		}
	}
}

// floor serves HTTP as cheaply as it goes: "direct" answers itself, "bytes" passes requests to swiftMCP and exchanges nothing but ids, "pass"
// passes them to another server over HTTP as they are.
func floor() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println("http://" + l.Addr().String())
	answer := swiftAnswer
	if os.Args[1] == "bytes" {
		r, err := startRelay()
		if err != nil {
			return 1
		}
		answer = r.pass
	}
	if os.Args[1] == "pass" {
		c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
		answer = func(body []byte) []byte {
			resp, err := c.Post(os.Args[2], "application/json", bytes.NewReader(body))
			if err != nil {
				return nil
			}
			defer resp.Body.Close()
			out, _ := io.ReadAll(resp.Body)
			return out
		}
	}
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		out := answer(body)
		if out == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out)
	}))
	return 0
}

type relay struct {
	mu      sync.Mutex
	in      io.Writer
	last    int
	waiting map[int]chan []byte
}

func startRelay() (*relay, error) {
	cmd := exec.Command("swiftmcp")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r := &relay{in: in, waiting: map[int]chan []byte{}}
	go r.read(bufio.NewReaderSize(out, 64<<10))
	return r, errors.Join(cmd.Start())
}

func (r *relay) pass(body []byte) []byte {
	head, rest, ok := bytes.Cut(body, []byte(swiftID))
	if !ok {
		return nil
	}
	end := bytes.IndexAny(rest, ",}")
	answer := make(chan []byte, 1)
	r.mu.Lock()
	r.last++
	r.waiting[r.last] = answer
	line := strconv.AppendInt(append(head[:len(head):len(head)], swiftID...), int64(r.last), 10)
	_, _ = r.in.Write(append(append(line, rest[end:]...), '\n'))
	r.mu.Unlock()
	head, tail, _ := bytes.Cut(<-answer, []byte(swiftID))
	out := append(append(make([]byte, 0, len(head)+len(tail)+32), head...), swiftID...)
	return append(append(out, rest[:end]...), tail[bytes.IndexAny(tail, ",}"):]...)
}

func (r *relay) read(out *bufio.Reader) {
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return
		}
		_, rest, _ := bytes.Cut(line, []byte(swiftID))
		id, _ := strconv.Atoi(string(rest[:bytes.IndexAny(rest, ",}")]))
		r.mu.Lock()
		answer := r.waiting[id]
		delete(r.waiting, id)
		r.mu.Unlock()
		answer <- bytes.TrimSuffix(line, []byte("\n"))
	}
}
