// Decodes manifests as an API server does that refuses unknown and repeated fields, and prints them as a list in JSON.
//
//	kubernetes FILE...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func decode(path string, decoder runtime.Decoder) (objects []runtime.Object) {
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, len(text))
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		object, _, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		objects = append(objects, object)
	}
}

func main() {
	log.SetFlags(0)
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, path := range os.Args[1:] {
		objects = append(objects, decode(path, decoder)...)
	}
	if err := json.NewEncoder(os.Stdout).Encode(objects); err != nil {
		log.Fatal(err)
	}
}
