// Package spans draws tasks as OpenTelemetry traces, after the conventions for generative AI:
//
//	invoke_agent reviewer          a task, from its prompt to its end
//	├── chat gpt-5                 a request to a model
//	├── execute_tool read_file     an attempt of a call, by the toolrunner that ran it; if none did to the
//	│                              end, by the engine
//	└── chat gpt-5
//
// A span is made when what it stands for is over, from what the events of engines and toolrunners say.
// Nothing is kept meanwhile: the ids of a task's trace and of its own span follow from the task's name or,
// if its prompt was sent from within a trace, that one's id stands in the log. So a toolrunner, and an engine
// that takes the task over, know them without having been told by the one that began, which may be lost;
// and the trace is whole but for what was never said to be over.
//
// No span holds what people, models or tools said. A nil [Spans] draws nothing.
package spans
