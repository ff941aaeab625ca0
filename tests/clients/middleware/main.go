// An application behind the Go middleware: main URL open|closed SECONDS. Tells its port. TOKEN may be set.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	weir "weir/examples/middleware"
)

// /status/404 asks for a status.
func answer(w http.ResponseWriter, r *http.Request) {
	if status, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/status/")); err == nil {
		w.WriteHeader(status)
	}
	switch r.URL.Path {
	case "/raise":
		panic("raised")
	case "/slow":
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Fprintln(w, "welcome")
	switch r.URL.Path {
	case "/endless":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "/broken":
		w.(http.Flusher).Flush()
		panic("broken")
	case "/copied":
		io.Copy(w, strings.NewReader("copied\n"))
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		panic(err)
	}
	limit := weir.Middleware{URL: os.Args[1], FailOpen: os.Args[2] == "open",
		Timeout: time.Duration(seconds * float64(time.Second)), Token: os.Getenv("TOKEN")}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r)
	}))))
}
