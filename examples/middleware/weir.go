// Package weir asks Weir about each request of an HTTP server, before its handlers do.
//
//	limit := weir.Middleware{URL: "http://127.0.0.1:8080", FailOpen: true}
//	http.ListenAndServe(":8000", limit.Wrap(mux))
//
// A denied request is answered here, as Weir says: 429 or 503, with Retry-After. If Weir does not
// answer within Timeout (100 ms if it is 0), the request passes (FailOpen) or is answered 503.
// Where Weir has users, Token is one's; without it, WEIR_TOKEN of the environment is.
// On Weir's own host use its Unix socket as the URL, "unix:/run/weir/http.sock".
//
// Where a limit waits for a report of the request, it gets one when the handlers have returned: success, failure
// (5xx or a panic), timeout (504, or the request's deadline), or ignored (4xx, or the client has left), and how long
// the request took. If the report fails, that is logged and changes nothing for the client.
package weir

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// What Weir tells the client, too.
var headers = []string{"RateLimit", "RateLimit-Policy", "Retry-After"}

// Middleware may be used by any number of goroutines. Its client keeps connections alive.
type Middleware struct {
	URL      string
	FailOpen bool
	Timeout  time.Duration
	Token    string
}

// Wrap lets requests that Weir allows through to next.
func (m Middleware) Wrap(next http.Handler) http.Handler {
	m, client := m.open()

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			ip = r.RemoteAddr
		}
		permit, allowed := m.admit(client, w, r, ip)
		if !allowed {
			return
		}
		if permit == "" {
			next.ServeHTTP(w, r)
			return
		}
		passed := &passed{ResponseWriter: w}
		begun := time.Now()
		defer func() {
			cause := recover()
			go m.report(client, permit, outcome(r, passed.status, cause), time.Since(begun))
			if cause != nil {
				panic(cause)
			}
		}()
		next.ServeHTTP(passed, r)
	})
}

// Fills in what is not set, and makes the client.
func (m Middleware) open() (Middleware, *http.Client) {
	if m.Timeout == 0 {
		m.Timeout = 100 * time.Millisecond
	}
	if m.Token == "" {
		m.Token = os.Getenv("WEIR_TOKEN")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	if strings.HasPrefix(m.URL, "unix:") {
		path := strings.TrimPrefix(m.URL, "unix:")
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		transport.Proxy = nil
		m.URL = "http://localhost"
	}
	return m, &http.Client{Timeout: m.Timeout, Transport: transport}
}

// Asks about the request, and answers it if it is not allowed. A request to report has a permit.
func (m Middleware) admit(client *http.Client, w http.ResponseWriter, r *http.Request, ip string) (string, bool) {
	status, told, permit, err := m.ask(client, r, ip)
	if err != nil {
		log.Printf("weir: no decision: %v", err)
		if !m.FailOpen {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
		return "", m.FailOpen
	}
	for _, name := range headers {
		if value := told.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	if status != http.StatusOK {
		http.Error(w, "too many requests", status)
	}
	return permit, status == http.StatusOK
}

// How a request ended that was answered with the status, or panicked.
func outcome(r *http.Request, status int, cause any) string {
	switch {
	case errors.Is(r.Context().Err(), context.Canceled):
		return "ignored"
	case errors.Is(r.Context().Err(), context.DeadlineExceeded), status == http.StatusGatewayTimeout:
		return "timeout"
	case cause != nil, status >= 500:
		return "failure"
	case status >= 400:
		return "ignored"
	}
	return "success"
}

// A request that Weir let pass, and the status of its answer, or 0.
type passed struct {
	http.ResponseWriter
	status int
}

func (p *passed) WriteHeader(status int) {
	if p.status < 200 { // else it is too late
		p.status = status
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *passed) Write(data []byte) (int, error) {
	if p.status < 200 {
		p.status = http.StatusOK
	}
	return p.ResponseWriter.Write(data)
}

// What handlers look for in a ResponseWriter.

func (p *passed) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *passed) ReadFrom(source io.Reader) (int64, error) {
	if p.status < 200 {
		p.status = http.StatusOK
	}
	return io.Copy(p.ResponseWriter, source)
}

func (p *passed) Flush() {
	if flusher, ok := p.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

func (p *passed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := p.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("weir: this connection can't be hijacked")
	}
	return hijacker.Hijack()
}

func (m Middleware) ask(client *http.Client, r *http.Request, ip string) (int, http.Header, string, error) {
	var answer struct {
		Allowed *bool  `json:"allowed"`
		Permit  string `json:"permit"`
	}
	response, err := m.post(client, "/v1/acquire", map[string]any{"attributes": map[string]string{
		"method": r.Method, "path": r.URL.Path, "ip": ip}}, &answer)
	if err != nil {
		return 0, nil, "", err
	}
	if answer.Allowed == nil {
		return 0, nil, "", fmt.Errorf("status %d without a decision", response.StatusCode)
	}
	return response.StatusCode, response.Header, answer.Permit, nil
}

func (m Middleware) report(client *http.Client, permit, outcome string, took time.Duration) {
	latency := took.Milliseconds()
	if latency == 0 {
		latency = 1
	}
	var answer any
	response, err := m.post(client, "/v1/report", map[string]any{
		"permit": permit, "outcome": outcome, "latency_ms": latency}, &answer)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %v", response.Status, answer)
	}
	if err != nil {
		log.Printf("weir: no report: %v", err)
	}
}

// Sends a body, and decodes the one of the response.
func (m Middleware) post(client *http.Client, path string, body, answer any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest("POST", strings.TrimRight(m.URL, "/")+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if m.Token != "" {
		request.Header.Set("Authorization", "Bearer "+m.Token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return response, json.NewDecoder(response.Body).Decode(answer)
}
