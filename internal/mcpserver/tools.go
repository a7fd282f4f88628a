package mcpserver

func (s *Server) tools() []tool {
	return []tool{
		newReadTool(s, "task_list", "List tasks and their status, the most urgent first.", s.list),
		newReadTool(s, "task_show", "Show one task: status, criteria with verdicts, usage, files, next command.", s.show),
		newReadTool(s, "task_logs", "Show the log of the last run: phases, checks, agent messages. Returns its end, or lines from or before a cursor.", s.readLogs),
		newReadTool(s, "task_review", "Show the plan of a task for a decision, in pages. The last page has the hash for task_approve and task_reject.", s.review),
		newReadTool(s, "objective_next", "Show the progress of each roadmap and its next step.", s.objectives),
		newTool(s, Work, "task_plan", "Start planning a requirement, or plan a task again with feedback. Returns at once.", s.plan),
		newTool(s, Work, "task_control", "Start, stop, retry, cancel or deliver (push and open a pull request) a task. Returns at once. Refused inside a run.", s.control),
		newTool(s, All, "task_approve", "Approve the plan that task_review showed, or its waiting step. Only when the user says so. Refused inside a run.", s.approve),
		newTool(s, All, "task_reject", "Reject the plan that task_review showed, or its waiting step, with the user's reason. Refused inside a run.", s.reject),
	}
}
