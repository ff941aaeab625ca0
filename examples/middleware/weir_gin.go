package weir

import (
	"time"

	"github.com/gin-gonic/gin"
)

// Gin asks Weir about each request of gin, as Wrap does for net/http. It needs weir.go beside it.
//
//	limit := weir.Middleware{URL: "http://127.0.0.1:8080", FailOpen: true}
//	router := gin.Default()
//	router.Use(limit.Gin())
//
// The attribute ip is what gin says, so set gin's trusted proxies. Handlers that panic are failures.
func (m Middleware) Gin() gin.HandlerFunc {
	m, client := m.open()

	return func(c *gin.Context) {
		permit, allowed := m.admit(client, c.Writer, c.Request, c.ClientIP())
		if !allowed {
			c.Abort()
			return
		}
		if permit != "" {
			begun := time.Now()
			defer func() {
				cause := recover()
				go m.report(client, permit, outcome(c.Request, c.Writer.Status(), cause), time.Since(begun))
				if cause != nil {
					panic(cause)
				}
			}()
		}
		c.Next()
	}
}
