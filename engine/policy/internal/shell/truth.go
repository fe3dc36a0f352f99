package shell

// Truth is an answer of three values, in order: who takes the least of several gets "and", who takes
// the greatest gets "or".
type Truth int

// The answers.
const (
	No Truth = iota
	// Maybe means that it depends on what only running the script could tell.
	Maybe
	Yes
)

func truth(b bool) Truth {
	if b {
		return Yes
	}
	return No
}
