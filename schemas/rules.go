package schemas

import "slices"

// RuleName names a guarantee of a stream.
type RuleName string

// The rules. [Rules] says what each guarantees.
const (
	RulePositions           RuleName = "positions"
	RuleTraceScope          RuleName = "trace-scope"
	RuleSessionMeta         RuleName = "session-meta"
	RuleRecordedOnly        RuleName = "recorded-only"
	RuleSegmentOrder        RuleName = "segment-order"
	RuleSegmentContent      RuleName = "segment-content"
	RuleSegmentStopReason   RuleName = "segment-stop-reason"
	RuleOneRequest          RuleName = "one-request"
	RuleModelInRequest      RuleName = "model-in-request"
	RuleEarlierTurns        RuleName = "earlier-turns"
	RuleUsageThenEnd        RuleName = "usage-then-end"
	RuleUsageTotals         RuleName = "usage-totals"
	RuleTurnSettled         RuleName = "turn-settled"
	RuleMarks               RuleName = "marks"
	RuleBudget              RuleName = "budget"
	RuleUniqueCall          RuleName = "unique-call"
	RuleApprovalRequest     RuleName = "approval-request"
	RuleDecisionAfterCall   RuleName = "decision-after-call"
	RuleDecisionOrder       RuleName = "decision-order"
	RuleOneDecision         RuleName = "one-decision"
	RuleDecisionValue       RuleName = "decision-value"
	RuleWithdrawn           RuleName = "withdrawn"
	RuleRefusedOutput       RuleName = "refused-output"
	RuleOutputAfterDecision RuleName = "output-after-decision"
	RuleOneOutput           RuleName = "one-output"
	RuleEveryOutput         RuleName = "every-output"
	RuleCompaction          RuleName = "compaction"
	RuleAbortLast           RuleName = "abort-last"
	RuleOneTaskEnd          RuleName = "one-task-end"
	RuleTaskEndLast         RuleName = "task-end-last"
	RuleQueue               RuleName = "queue"
	RuleDeletedLast         RuleName = "deleted-last"
)

// Rule is a guarantee that a [Checker] checks.
type Rule struct {
	Name RuleName
	// Guarantee is a sentence: what a reader of a stream may rely on.
	Guarantee string
}

var rules = []Rule{
	{RulePositions, "Positions strictly increase."},
	{RuleTraceScope, "A message of scope trace is never part of the stream that watchers see, and never has an origin."},
	{RuleSessionMeta, "A session's own session_meta has scope trace, and a child's stream begins with the child's session_meta."},
	{RuleRecordedOnly, "The record holds neither fragments nor messages of child sessions."},
	{RuleSegmentOrder, "A segment is one start, any number of deltas, one stop and then the complete message, with nothing of the same producer between them; the model has one segment open at a time."},
	{RuleSegmentContent, "The deltas of a segment, joined, equal its complete message; start and stop carry no content."},
	{RuleSegmentStopReason, "A stop_reason given at a segment's stop is that of its complete message."},
	{RuleOneRequest, "A session has one request open at a time, and every request_begin gets exactly one request_end before its task ends."},
	{RuleModelInRequest, "What the model says and its token_usage stand between request_begin and request_end; only the notice that the turns are used up, and earlier turns, stand outside."},
	{RuleEarlierTurns, "Turns of a conversation that came with a prompt have scope trace and stand before the session's first request; each of their calls has its one output before the next words, and nothing is asked or decided about it."},
	{RuleUsageThenEnd, "token_usage is the model's last message and request_end follows it directly, in its frame; a completed request has both."},
	{RuleUsageTotals, "The session's counts in a token_usage are those of the one before it and its request's added up, so they never fall."},
	{RuleTurnSettled, "A request begins only when every decided call has its output and no call of a committed request waits for its decision."},
	{RuleMarks, "budget_exceeded and then loop_detected stand directly after a request_end, in its frame."},
	{RuleBudget, "After budget_exceeded no request begins in the same task."},
	{RuleUniqueCall, "A tool_call_id names one call of its session, for ever."},
	{RuleApprovalRequest, "An approval_request comes after its call and before its decision, once, and one is open at a time."},
	{RuleDecisionAfterCall, "An approval_decision comes after its tool_call."},
	{RuleDecisionOrder, "Calls are asked about and decided in the order they were made."},
	{RuleOneDecision, "A call is decided at most once."},
	{RuleDecisionValue, "A decision is allow, deny or forbidden."},
	{RuleWithdrawn, "A call that was undecided when its request ended other than completed, or when its task ended, is withdrawn: nothing more is asked or decided about it."},
	{RuleRefusedOutput, "deny and forbidden are followed directly by the call's complete output, with stop_reason aborted or failed and without fragments."},
	{RuleOutputAfterDecision, "No output comes before the decision on its call."},
	{RuleOneOutput, "A call gets one complete output, and nothing of it comes later."},
	{RuleEveryOutput, "When a task ends every decided call has its output; unless it was aborted, so has every call of a committed request."},
	{RuleCompaction, "Compactions do not overlap one another or a request, and between compaction_begin and compaction_end the stream shows only token_usage."},
	{RuleAbortLast, "Only task_end follows abort."},
	{RuleOneTaskEnd, "A task has exactly one task_end."},
	{RuleTaskEndLast, "Nothing of a task follows its task_end."},
	{RuleQueue, "A task that waits is said to by one task_queued, and by one task_dequeued when it waits no longer."},
	{RuleDeletedLast, "Only outcomes of commands and changes of the owner follow session_deleted."},
}

// Rules lists every rule, in the order a stream meets them.
func Rules() []Rule { return slices.Clone(rules) }
