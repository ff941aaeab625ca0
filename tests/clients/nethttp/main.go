// Go's own client of HTTP: nethttp URL. See ../README.md.
package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
)

type question struct {
	Method, Path, Body string
	Headers            map[string]string
}

type answer struct {
	Version int    `json:"version"`
	Status  int    `json:"status"`
	Body    string `json:"body"`
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func ask(question question) answer {
	request := must(http.NewRequest(question.Method, os.Args[1]+question.Path, strings.NewReader(question.Body)))
	for name, value := range question.Headers {
		request.Header.Set(name, value)
	}
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	return answer{response.ProtoMajor, response.StatusCode, string(must(io.ReadAll(response.Body)))}
}

func main() {
	var turns [][]question
	var answers [][]answer
	if err := json.NewDecoder(os.Stdin).Decode(&turns); err != nil {
		log.Fatal(err)
	}
	for _, questions := range turns {
		var group sync.WaitGroup
		turn := make([]answer, len(questions))
		for i := range questions {
			group.Add(1)
			go func(i int) {
				defer group.Done()
				turn[i] = ask(questions[i])
			}(i)
		}
		group.Wait()
		answers = append(answers, turn)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}
