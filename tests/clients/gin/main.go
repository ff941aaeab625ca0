// An application of gin behind its middleware: gin URL open|closed SECONDS. Tells its port. TOKEN may be set.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/tests/clients/gin/weir"
)

// /status/404 asks for a status.
func answer(c *gin.Context) {
	path := c.Request.URL.Path
	status, err := strconv.Atoi(strings.TrimPrefix(path, "/status/"))
	if err != nil {
		status = http.StatusOK
	}
	switch path {
	case "/raise":
		panic("raised")
	case "/slow":
		time.Sleep(50 * time.Millisecond)
	}
	c.String(status, "welcome\n")
	switch path {
	case "/endless":
		c.Writer.Flush()
		<-c.Request.Context().Done()
	case "/broken":
		c.Writer.Flush()
		panic(http.ErrAbortHandler)
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		panic(err)
	}
	limit := weir.Middleware{URL: os.Args[1], FailOpen: os.Args[2] == "open",
		Timeout: time.Duration(seconds * float64(time.Second)), Token: os.Getenv("TOKEN")}
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultWriter = os.Stderr
	router := gin.Default()
	if err := router.SetTrustedProxies(nil); err != nil {
		panic(err)
	}
	router.Use(limit.Gin())
	router.NoRoute(answer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, router))
}
