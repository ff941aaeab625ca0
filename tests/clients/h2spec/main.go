// Every case of h2spec, which judges servers of HTTP/2, against one of ours. The last line of its
// output is a list in JSON: of each case its number and name, and what was wrong, or "".
//
//	h2spec PORT PATH plain|tls
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

type verdict struct {
	Case, Name, Fault string
}

func fault(result *spec.TestResult) string {
	if result == nil || result.Skipped {
		return "not run"
	}
	if result.Error == nil {
		return ""
	}
	return result.Error.Error()
}

func verdicts(group *spec.TestGroup) []verdict {
	var all []verdict
	for i, test := range append(group.Tests, group.StrictTests...) {
		all = append(all, verdict{fmt.Sprintf("%s/%d", group.ID(), i+1), test.Desc, fault(test.Result)})
	}
	for _, part := range group.Groups {
		all = append(all, verdicts(part)...)
	}
	return all
}

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config := &config.Config{
		Host:         "127.0.0.1",
		Port:         port,
		Path:         os.Args[2],
		TLS:          os.Args[3] == "tls",
		Timeout:      2 * time.Second,
		MaxHeaderLen: 4000,
		Strict:       true,
	}
	var all []verdict
	for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		group.Test(config)
		all = append(all, verdicts(group)...)
	}
	text, err := json.Marshal(all)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n%s\n", text)
}
