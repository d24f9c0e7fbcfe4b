package registry_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bobbin/internal/safehttp"
	"bobbin/registry"
	"bobbin/schemas"
)

const webVar = "BOBBIN_REGISTRY_WEB"

// runWeb makes the test binary a server behind HTTP, which says its address and ends with its input.
func runWeb() bool {
	var size int
	var events bool
	if n, _ := fmt.Sscan(os.Getenv(webVar), &size, &events); n != 2 {
		return false
	}
	plain := webServer(script{Tools: tools(echoTool()), Lean: size})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !events {
			plain.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		plain.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			w.WriteHeader(rec.Code)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: message\ndata: "+strings.TrimSpace(rec.Body.String())+"\n\n")
	}))
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// BenchmarkUsage tells what a call costs this process, its server being another one: processor time, which other work on the machine
// changes little, and allocations.
func BenchmarkUsage(b *testing.B) {
	for _, wire := range []string{"stdio", "json", "events"} {
		for _, size := range []int{43, 16 << 10} {
			for _, callers := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/%dB/%d", wire, size, callers), func(b *testing.B) {
					h := usageHouse(b, wire, size)
					c := by(one, "s.echo", `{"text":"hi"}`)
					c.Origin, c.Whole = schemas.ByGateway, true
					for range 200 { // connections and pools
						if _, err := h.Call(background(), c); err != nil {
							b.Fatal(err)
						}
					}
					var left atomic.Int64
					left.Store(int64(b.N))
					var wg sync.WaitGroup
					b.ReportAllocs()
					b.ResetTimer()
					began := spent()
					for range callers {
						wg.Go(func() {
							for left.Add(-1) >= 0 {
								if _, err := h.Call(background(), c); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					b.ReportMetric(float64((spent()-began).Nanoseconds())/1000/float64(b.N), "us-cpu/op")
				})
			}
		}
	}
}

func usageHouse(b *testing.B, wire string, size int) *house {
	var h *house
	if wire == "stdio" {
		h, _ = newProcesses(b, map[string]script{"a": {Tools: tools(echoTool()), Lean: size}}, quietJournal)
		h.set(one, entry("s", "a"))
	} else {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %v", webVar, size, wire == "events"))
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := cmd.Start(); err1 != nil || err2 != nil || err != nil {
			b.Fatal(err1, err2, err)
		}
		b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
		address, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		client := safehttp.New(safehttp.Options{AllowLoopback: true})
		b.Cleanup(client.CloseIdleConnections)
		h = newHouse(b, nil, quietJournal, func(o *registry.Options) {
			o.HTTP = func(schemas.ThreadID, schemas.Server) *http.Client { return client }
		})
		h.set(one, approved(schemas.Entry{Server: schemas.Server{Name: "s", Type: schemas.HTTP, URL: strings.TrimSpace(address)}, Kind: schemas.Connector, Owner: "ann", Enabled: true}))
	}
	h.apply(one)
	if st := h.status(one, "s"); st.State != schemas.Ready {
		b.Fatalf("%+v", st)
	}
	return h
}
