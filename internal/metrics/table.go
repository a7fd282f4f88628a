package metrics

// Kind is the Prometheus type of a metric.
type Kind string

const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
)

// Metric is a metric with its labels.
type Metric struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
}

// The current state of tasks.
var (
	buildInfo      = Metric{"trellis_build_info", Gauge, []string{"version", "go"}, "1, with the version of trellis that wrote this."}
	tasksByStatus  = Metric{"trellis_tasks", Gauge, []string{"status"}, "Tasks that are not archived, by status."}
	tasksWaiting   = Metric{"trellis_tasks_waiting", Gauge, []string{"reason"}, "Tasks that stand still, by what they wait for."}
	tasksNeeding   = Metric{"trellis_tasks_needing_person", Gauge, nil, "Tasks to which nothing happens until a person reviews, decides or mends something."}
	tasksRunning   = Metric{"trellis_tasks_running", Gauge, nil, "Tasks that a process is at work on."}
	tasksBroken    = Metric{"trellis_tasks_broken", Gauge, nil, "Tasks whose files have problems."}
	watcherUp      = Metric{"trellis_watcher_up", Gauge, nil, "Whether a watcher is there and does not hang."}
	watcherBeat    = Metric{"trellis_watcher_last_beat_timestamp_seconds", Gauge, nil, "When the watcher that is there showed a sign of life last; missing without one."}
	watcherSlots   = Metric{"trellis_watcher_slots", Gauge, nil, "Tasks that the watcher runs at once, at most."}
	watcherBusy    = Metric{"trellis_watcher_slots_busy", Gauge, nil, "Tasks that the watcher runs."}
	watcherQueue   = Metric{"trellis_watcher_queue_tasks", Gauge, nil, "Tasks that could run and wait for a slot."}
	dayTokens      = Metric{"trellis_day_tokens", Gauge, nil, "Tokens that agents used today, on all machines that share the tasks, by local time or shared.time_zone."}
	dayTokensLimit = Metric{"trellis_day_tokens_limit", Gauge, nil, "limits.day_tokens; missing without one."}
	dayCost        = Metric{"trellis_day_cost_usd", Gauge, nil, "What agents cost today as far as that is known, on all machines that share the tasks, by local time or shared.time_zone, in US dollars."}
	dayCostLimit   = Metric{"trellis_day_cost_limit_usd", Gauge, nil, "limits.day_cost_usd; missing without one."}
	unreadable     = Metric{"trellis_journals_unreadable", Gauge, nil, "Journals that can't be read to their end; what stands before that counts."}
	collectSeconds = Metric{"trellis_collect_duration_seconds", Gauge, nil, "How long it took to collect all this."}
)

// The work done for all tasks, including archived ones.
var (
	runsEnded    = Metric{"trellis_runs_total", Counter, []string{"flow", "outcome"}, "Runs and plannings that ended, by what came of them."}
	runFailures  = Metric{"trellis_run_failures_total", Counter, []string{"flow", "code"}, "Runs and plannings that failed, by failure code."}
	runSeconds   = Metric{"trellis_run_duration_seconds", Histogram, []string{"flow"}, "How long runs and plannings took from begin to end, waiting included."}
	runRounds    = Metric{"trellis_run_rounds", Histogram, nil, "Rounds of check and debug of runs that ended."}
	phaseSeconds = Metric{"trellis_phase_duration_seconds", Histogram, []string{"phase"}, "How long phases of runs took."}
	deliveries   = Metric{"trellis_deliveries_total", Counter, []string{"to"}, "Runs that delivered their work, by where it went: branch, push or pull_request."}
	agentCalls   = Metric{"trellis_agent_calls_total", Counter, []string{"role", "agent", "result"}, "Calls of agents: ok, failed, or refused, which is an answer that says no."}
	agentSeconds = Metric{"trellis_agent_call_duration_seconds", Histogram, []string{"role"}, "How long calls of agents took."}
	agentTokens  = Metric{"trellis_agent_tokens_total", Counter, []string{"agent", "model", "type"}, "Tokens: input (written to a cache or not), cache_read, output."}
	agentCost    = Metric{"trellis_agent_cost_usd_total", Counter, []string{"agent", "model", "estimated"}, "What calls cost in US dollars: as agents told, or estimated by list prices."}
	unpriced     = Metric{"trellis_agent_calls_unpriced_total", Counter, []string{"agent", "model"}, "Calls of which nobody knows what they cost."}
	cacheMissed  = Metric{"trellis_agent_cache_missed_total", Counter, []string{"agent"}, "Calls of whose input nothing was cached, although some of it could have been."}
	checks       = Metric{"trellis_checks_total", Counter, []string{"phase", "result"}, "Commands of the project that ran: passed or failed."}
	checkSeconds = Metric{"trellis_check_seconds_total", Counter, []string{"phase"}, "Seconds that commands of the project ran."}
)

// All returns all metrics.
func All() []Metric {
	return []Metric{buildInfo, tasksByStatus, tasksWaiting, tasksNeeding, tasksRunning, tasksBroken, watcherUp, watcherBeat, watcherSlots, watcherBusy, watcherQueue,
		dayTokens, dayTokensLimit, dayCost, dayCostLimit, runsEnded, runFailures, runSeconds, runRounds, phaseSeconds, deliveries,
		agentCalls, agentSeconds, agentTokens, agentCost, unpriced, cacheMissed, checks, checkSeconds, unreadable, collectSeconds}
}

// Bounds of the buckets of histograms.
var (
	secondsBounds = []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 21600, 86400}
	roundsBounds  = []float64{1, 2, 3, 4, 6, 10}
)
