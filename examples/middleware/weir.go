// Package weir asks Weir about each request of an HTTP server, before its handlers do.
//
//	limit := weir.Middleware{URL: "http://127.0.0.1:8080", FailOpen: true}
//	http.ListenAndServe(":8000", limit.Wrap(mux))
//
// A denied request is answered here, as Weir says: 429 or 503, with Retry-After. If Weir does not
// answer within Timeout (100 ms if it is 0), the request passes (FailOpen) or is answered 503.
// Where Weir has users, Token is one's; without it, WEIR_TOKEN of the environment is.
package weir

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	timeout := m.Timeout
	if timeout == 0 {
		timeout = 100 * time.Millisecond
	}
	if m.Token == "" {
		m.Token = os.Getenv("WEIR_TOKEN")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	client := &http.Client{Timeout: timeout, Transport: transport}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, told, err := m.ask(client, r)
		if err != nil {
			log.Printf("weir: no decision: %v", err)
			if m.FailOpen {
				next.ServeHTTP(w, r)
			} else {
				http.Error(w, "try again later", http.StatusServiceUnavailable)
			}
			return
		}
		for _, name := range headers {
			if value := told.Get(name); value != "" {
				w.Header().Set(name, value)
			}
		}
		if status != http.StatusOK {
			http.Error(w, "too many requests", status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (m Middleware) ask(client *http.Client, r *http.Request) (int, http.Header, error) {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	body, err := json.Marshal(map[string]any{"attributes": map[string]string{
		"method": r.Method, "path": r.URL.Path, "ip": ip}})
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequest("POST", strings.TrimRight(m.URL, "/")+"/v1/acquire", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if m.Token != "" {
		request.Header.Set("Authorization", "Bearer "+m.Token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Allowed *bool `json:"allowed"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, nil, err
	}
	if answer.Allowed == nil {
		return 0, nil, fmt.Errorf("status %d without a decision", response.StatusCode)
	}
	return response.StatusCode, response.Header, nil
}
