// Package openai is a provider of models behind the chat completions protocol of OpenAI, which
// most servers speak: OpenAI itself, vLLM, llama.cpp, Ollama, LM Studio, OpenRouter, DeepSeek,
// Mistral, Groq and many more. Any base URL will do.
//
// The protocol has no author any more, so the package is strict in what it sends and tolerant in
// what it takes:
//
//   - The first tool call of an answer is streamed as it comes. It is complete only when the
//     answer is: a call of an answer that breaks off, is cut at the output limit or is withheld by a
//     filter is never run. What comes beside or behind the first call is held until then.
//   - Calls are told apart by index, by id, or by neither, see calls.go.
//   - An answer is complete once it has a finish reason or ends in [DONE]. It is judged by what it
//     holds rather than by the reason's name: servers say stop and mean tool_calls.
//   - Reasoning is read from reasoning_content, reasoning and reasoning_details.
//
// What must go back to the provider travels as the fidelity of messages, see fidelity.go: its own
// call ids, signatures, and the name of its reasoning field. Another provider or model never gets
// it.
//
// A provider is safe for concurrent use. It starts no goroutine; [Provider.Close] closes its idle
// connections.
//
// Start reading at provider.go, then model.go; request.go and messages.go make requests, chunk.go,
// answer.go, calls.go and reasoning.go read answers.
package openai
