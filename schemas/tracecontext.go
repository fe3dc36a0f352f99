package schemas

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// TraceContext is a place in somebody's distributed trace, as W3C Trace Context writes it. The zero value
// is nowhere.
type TraceContext struct {
	// TraceParent names the trace, the span, and whether they are sampled.
	TraceParent string `json:"traceparent,omitzero"`
	// TraceState is what vendors add.
	TraceState string `json:"tracestate,omitzero"`
}

// MaxTraceState bounds a trace state, in bytes: it is what everybody should pass on at least.
const MaxTraceState = 512

// traceParent is one of any version: later ones may say more behind what version 00 has.
var traceParent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

// ParseTraceContext reads the headers traceparent and tracestate of anybody. What it returns is of version
// 00, with the flags that are defined. As the standard has it, nothing is an error: a traceparent that is
// malformed is nowhere, and a state that can't be passed on, or has over [MaxTraceState] bytes, is left out.
func ParseTraceContext(traceparent, tracestate string) TraceContext {
	m := traceParent.FindStringSubmatch(strings.Trim(traceparent, " \t"))
	if m == nil {
		return TraceContext{}
	}
	version, trace, span, more := m[1], m[2], m[3], m[5]
	flags, err := strconv.ParseUint(m[4], 16, 8)
	if err != nil || version == "ff" || version == "00" && more != "" || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return TraceContext{}
	}
	const sampled, random = 1, 2
	state := strings.Trim(tracestate, " \t")
	if len(state) > MaxTraceState || strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		state = ""
	}
	return TraceContext{TraceParent: fmt.Sprintf("00-%s-%s-%02x", trace, span, flags&(sampled|random)), TraceState: state}
}
