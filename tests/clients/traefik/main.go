// Traefik's own parts in front of a site: its reader of dynamic configuration, what its entry
// points do to X-Forwarded headers, its router, its forwardAuth and its headers. The whole of Traefik takes
// minutes to build.
//
//	traefik ADDRESS FILE
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"syscall"

	"github.com/traefik/paerser/file"
	"github.com/traefik/traefik/v2/pkg/config/dynamic"
	"github.com/traefik/traefik/v2/pkg/middlewares/auth"
	"github.com/traefik/traefik/v2/pkg/middlewares/forwardedheaders"
	"github.com/traefik/traefik/v2/pkg/middlewares/headers"
	"github.com/traefik/traefik/v2/pkg/middlewares/requestdecorator"
	httpmuxer "github.com/traefik/traefik/v2/pkg/muxer/http"
)

const reusePort = 0xf // SO_REUSEPORT, which syscall does not name

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// service is the first server of a load balancer.
func service(config *dynamic.Service) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(must(url.Parse(config.LoadBalancer.Servers[0].URL)))
	proxy.ErrorLog = log.Default()
	return proxy
}

func handler(config *dynamic.HTTPConfiguration) (http.Handler, error) {
	muxer := must(httpmuxer.NewMuxer())
	for name, router := range config.Routers {
		next := service(config.Services[router.Service])
		for i := len(router.Middlewares) - 1; i >= 0; i-- {
			middleware := config.Middlewares[router.Middlewares[i]]
			switch {
			case middleware != nil && middleware.ForwardAuth != nil:
				next = must(auth.NewForward(context.Background(), next, *middleware.ForwardAuth,
					router.Middlewares[i]))
			case middleware != nil && middleware.Headers != nil:
				next = must(headers.New(context.Background(), next, *middleware.Headers,
					router.Middlewares[i]))
			default:
				return nil, fmt.Errorf("router %s: %s is neither forwardAuth nor headers", name,
					router.Middlewares[i])
			}
		}
		if err := muxer.AddRoute(router.Rule, router.Priority, next); err != nil {
			return nil, err
		}
	}
	muxer.SortRoutes()
	entered := func(w http.ResponseWriter, r *http.Request) {
		requestdecorator.New(nil).ServeHTTP(w, r, muxer.ServeHTTP)
	}
	return forwardedheaders.NewXForwarded(false, nil, http.HandlerFunc(entered))
}

func main() {
	content := must(os.ReadFile(os.Args[2]))
	config := &dynamic.Configuration{}
	if err := file.DecodeContent(string(content), ".yaml", config); err != nil {
		log.Fatal(err)
	}
	listen := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		return conn.Control(func(fd uintptr) {
			must(0, syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, reusePort, 1))
		})
	}}
	listener := must(listen.Listen(context.Background(), "tcp", os.Args[1]))
	log.Fatal(http.Serve(listener, must(handler(config.HTTP))))
}
