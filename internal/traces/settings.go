package traces

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Settings say where spans are sent and with which resource attributes, as set by OpenTelemetry's variables.
type Settings struct {
	Endpoint string // for traces
	Headers  http.Header
	Service  string
	Resource map[string]string // additional attributes of this process
	Timeout  time.Duration     // of one request; 0: none
}

// FromEnvironment returns the settings in the environment, nil if no spans are wanted. An error names the invalid variable.
func FromEnvironment(get func(name string) string) (*Settings, error) {
	endpoint := get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := get("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" && base != "" {
		endpoint = strings.TrimRight(base, "/") + "/v1/traces"
	}
	if endpoint == "" || strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || get("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	// Variables for traces take precedence over those for all signals.
	lookup := func(name string) string {
		return cmp.Or(get("OTEL_EXPORTER_OTLP_TRACES_"+name), get("OTEL_EXPORTER_OTLP_"+name))
	}
	if protocol := lookup("PROTOCOL"); protocol == "grpc" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and spans go by HTTP alone: name the port for that, mostly 4318, and http/json")
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT is not an address that begins with http:// or https://")
	}
	s := &Settings{Endpoint: endpoint, Headers: http.Header{}, Service: get("OTEL_SERVICE_NAME"), Timeout: 10 * time.Second}
	if s.Resource, err = parsePairs(get("OTEL_RESOURCE_ATTRIBUTES")); err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	s.Service = cmp.Or(s.Service, s.Resource["service.name"], "trellis")
	delete(s.Resource, "service.name")
	headers, err := parsePairs(lookup("HEADERS"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	for name, value := range headers {
		s.Headers.Set(name, value)
	}
	if said := lookup("TIMEOUT"); said != "" {
		ms, err := strconv.Atoi(said)
		if err != nil || ms < 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q, and no number of milliseconds", said)
		}
		s.Timeout = time.Duration(ms) * time.Millisecond
	}
	return s, nil
}

// parsePairs parses NAME=VALUE,NAME=VALUE with percent-encoded values. Errors don't show the text, since it may contain a key.
func parsePairs(text string) (map[string]string, error) {
	list := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("it is not NAME=VALUE,NAME=VALUE")
		}
		list[name] = value
	}
	return list, nil
}
