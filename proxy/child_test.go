package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// message is as much of JSON-RPC as the child needs.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string         `json:"name"`
		Cursor    string         `json:"cursor"`
		Arguments map[string]any `json:"arguments"`
		RequestID json.Number    `json:"requestId"`
		Meta      struct {
			Token   json.RawMessage `json:"progressToken"`
			Version string          `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

// speaker is the child's standard output.
type speaker struct {
	mu    sync.Mutex
	calls sync.WaitGroup
	heard map[string]chan string // answers of clients, by the id of our request
	left  map[string]chan struct{}

	cancelled atomic.Int64
}

func (s *speaker) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// child is a small MCP server over stdio; its first argument is a vice.
func child() int {
	vice := ""
	if len(os.Args) > 1 {
		vice = os.Args[1]
	}
	switch vice {
	case "exit":
		fmt.Fprintln(os.Stderr, "I cannot go on:", os.Getenv("SECRET"))
		return 3
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	case "command":
		return command(os.Args[2:])
	case "endless-line":
		for block := strings.Repeat("x", 1<<20); ; {
			if _, err := os.Stdout.WriteString(block); err != nil {
				return 1
			}
		}
	case "garbage":
		for range 1000 {
			fmt.Println("npm WARN something odd")
		}
	case "chatty":
		fmt.Println("npm WARN something odd")
		fmt.Println("")
		fmt.Fprintln(os.Stderr, strings.Repeat("e", 1<<20))
	}
	s := &speaker{heard: map[string]chan string{}, left: map[string]chan struct{}{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			fmt.Fprintln(os.Stderr, "not JSON:", in.Text())
			continue
		}
		s.hears(m, in.Text(), vice)
	}
	if vice == "stubborn" {
		time.Sleep(time.Hour)
	}
	s.calls.Wait()
	return 0
}

func (s *speaker) hears(m message, line, vice string) {
	switch m.Method {
	case "": // an answer of a client
		s.mu.Lock()
		heard := s.heard[string(m.ID)]
		s.mu.Unlock()
		if heard != nil {
			heard <- line
		}
	case "initialize":
		if vice == "modern" {
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
			return
		}
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}}`, m.ID)
	case "notifications/cancelled":
		s.mu.Lock()
		left := s.left[m.Params.RequestID.String()]
		s.mu.Unlock()
		if left != nil {
			s.cancelled.Add(1)
			close(left)
		}
	case "notifications/initialized":
		fmt.Fprintln(os.Stderr, "initialized")
	case "tools/list":
		s.list(m, vice)
	case "subscriptions/listen":
		s.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, m.ID)
	case "tools/call":
		if vice == "die" {
			os.Exit(4)
		}
		left := make(chan struct{})
		s.mu.Lock()
		s.left[string(m.ID)] = left
		s.mu.Unlock()
		s.calls.Go(func() { s.call(m, line, left) })
	default:
		if m.ID != nil {
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		}
	}
}

// list gives three tools on two pages.
func (s *speaker) list(m message, vice string) {
	if vice == "modern" && m.Params.Meta.Version != "2026-07-28" {
		s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"which version?"}}`, m.ID)
		return
	}
	tool := func(name string) string { return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name) }
	if m.Params.Cursor == "" {
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s,%s],"nextCursor":"se\"cond"}}`, m.ID, tool("echo"), tool("pid"))
		return
	}
	s.say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, m.ID, tool("env"))
}

func (s *speaker) call(m message, line string, left <-chan struct{}) {
	n := 0
	if v, ok := m.Params.Arguments["n"].(float64); ok {
		n = int(v)
	}
	reply := func(text string) {
		b, _ := json.Marshal(text)
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, m.ID, b)
	}
	switch m.Params.Name {
	case "echo":
		reply(fmt.Sprint(m.Params.Arguments["text"]))
	case "line":
		reply(line)
	case "pid":
		reply(strconv.Itoa(os.Getpid()))
	case "env":
		reply(strings.Join(os.Environ(), "\n"))
	case "cwd":
		dir, _ := os.Getwd()
		reply(dir)
	case "big":
		reply(strings.Repeat("0123456789", n/10))
	case "notify":
		s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		reply("told")
	case "progress":
		for i := range n {
			s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.Params.Meta.Token, i+1)
		}
		reply("done")
	case "event": // for a subscription, by the id that the child knows it under
		s.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b","_meta":{"io.modelcontextprotocol/subscriptionId":%d}}}`, n)
		reply("told")
	case "wait": // until it is cancelled
		fmt.Fprintln(os.Stderr, "waits", m.Params.Arguments["text"])
		<-left
		fmt.Fprintln(os.Stderr, "cancelled", m.Params.Arguments["text"])
	case "cancelled":
		reply(strconv.FormatBool(s.cancelled.Load() >= int64(n)))
	case "ask":
		id := fmt.Sprintf(`"q-%s"`, m.ID)
		heard := make(chan string, 1)
		s.mu.Lock()
		s.heard[id] = heard
		s.mu.Unlock()
		s.say(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":%q}}`, id, fmt.Sprint(m.Params.Arguments["text"]))
		reply("heard " + <-heard)
	case "exit":
		os.Exit(n)
	default:
		s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool"}}`, m.ID)
	}
}
