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
	buildInfo      = Metric{"trellis_build_info", Gauge, []string{"version", "go"}, "Always 1, with the version of trellis that wrote this."}
	tasksByStatus  = Metric{"trellis_tasks", Gauge, []string{"status"}, "Tasks that are not archived, by status."}
	tasksWaiting   = Metric{"trellis_tasks_waiting", Gauge, []string{"reason"}, "Tasks that wait, by what they wait for."}
	tasksNeeding   = Metric{"trellis_tasks_needing_person", Gauge, nil, "Tasks that are blocked until a person reviews, decides or fixes something."}
	tasksRunning   = Metric{"trellis_tasks_running", Gauge, nil, "Tasks that a process is working on."}
	tasksBroken    = Metric{"trellis_tasks_broken", Gauge, nil, "Tasks whose files have problems."}
	watcherUp      = Metric{"trellis_watcher_up", Gauge, nil, "Whether a watcher is running and does not hang."}
	watcherBeat    = Metric{"trellis_watcher_last_beat_timestamp_seconds", Gauge, nil, "Time of the last heartbeat of the running watcher; missing without one."}
	watcherSlots   = Metric{"trellis_watcher_slots", Gauge, nil, "Maximum number of tasks that the watcher runs at once."}
	watcherBusy    = Metric{"trellis_watcher_slots_busy", Gauge, nil, "Tasks that the watcher is running."}
	watcherQueue   = Metric{"trellis_watcher_queue_tasks", Gauge, nil, "Tasks that could run but wait for a slot."}
	dayTokens      = Metric{"trellis_day_tokens", Gauge, nil, "Tokens that agents used today, on all machines that share the tasks, in local time or shared.time_zone."}
	dayTokensLimit = Metric{"trellis_day_tokens_limit", Gauge, nil, "limits.day_tokens; missing without one."}
	dayCost        = Metric{"trellis_day_cost_usd", Gauge, nil, "Known cost of agents today in US dollars, on all machines that share the tasks, in local time or shared.time_zone."}
	dayCostLimit   = Metric{"trellis_day_cost_limit_usd", Gauge, nil, "limits.day_cost_usd; missing without one."}
	unreadable     = Metric{"trellis_journals_unreadable", Gauge, nil, "Journals that can't be read to the end; the readable part counts."}
	collectSeconds = Metric{"trellis_collect_duration_seconds", Gauge, nil, "Time it took to collect these metrics."}
)

// The work done for all tasks, including archived ones.
var (
	runsEnded    = Metric{"trellis_runs_total", Counter, []string{"flow", "outcome"}, "Runs and plannings that ended, by outcome."}
	runFailures  = Metric{"trellis_run_failures_total", Counter, []string{"flow", "code"}, "Runs and plannings that failed, by failure code."}
	runSeconds   = Metric{"trellis_run_duration_seconds", Histogram, []string{"flow"}, "Duration of runs and plannings from start to end, including waiting."}
	runRounds    = Metric{"trellis_run_rounds", Histogram, nil, "Rounds of check and debug in runs that ended."}
	phaseSeconds = Metric{"trellis_phase_duration_seconds", Histogram, []string{"phase"}, "Duration of phases of runs."}
	deliveries   = Metric{"trellis_deliveries_total", Counter, []string{"to"}, "Runs that delivered their work, by destination: branch, push or pull_request."}
	agentCalls   = Metric{"trellis_agent_calls_total", Counter, []string{"role", "agent", "result"}, "Calls of agents: ok, failed, or refused (an answer that rejects the plan or work)."}
	agentSeconds = Metric{"trellis_agent_call_duration_seconds", Histogram, []string{"role"}, "Duration of calls of agents."}
	agentTokens  = Metric{"trellis_agent_tokens_total", Counter, []string{"agent", "model", "type"}, "Tokens: input (written to a cache or not), cache_read, output."}
	agentCost    = Metric{"trellis_agent_cost_usd_total", Counter, []string{"agent", "model", "estimated"}, "Cost of calls in US dollars: reported by agents, or estimated by list prices."}
	unpriced     = Metric{"trellis_agent_calls_unpriced_total", Counter, []string{"agent", "model"}, "Calls with unknown cost."}
	cacheMissed  = Metric{"trellis_agent_cache_missed_total", Counter, []string{"agent"}, "Calls with no input from the cache, although some could have been cached."}
	checks       = Metric{"trellis_checks_total", Counter, []string{"phase", "result"}, "Project commands that ran: passed or failed."}
	checkSeconds = Metric{"trellis_check_seconds_total", Counter, []string{"phase"}, "Seconds that project commands ran."}
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
