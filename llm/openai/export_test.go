package openai

import (
	"time"

	"braid/llm"
)

// SetPatience changes how long a model waits for what may follow a finish reason.
func SetPatience(m llm.Model, d time.Duration) { m.(*model).provider.patience = d }
