// An application behind the Go middleware: main URL open|closed SECONDS. Tells its port. TOKEN may be set.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	weir "weir/examples/middleware"
)

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
		fmt.Fprintln(w, "welcome")
	}))))
}
