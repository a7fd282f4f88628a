package mcpserver

func (s *Server) tools() []tool {
	return []tool{
		newReadTool(s, "task_list", "The tasks and where they stand, most urgent first.", s.list),
		newReadTool(s, "task_show", "One task: where it stands, criteria with verdicts, usage, files, what comes next.", s.show),
		newReadTool(s, "task_logs", "What was done in the last run: phases, checks, what agents said. Its end, or the lines around a cursor.", s.readLogs),
		newReadTool(s, "task_review", "What a task will build, to decide about. The last page has the hash that task_approve and task_reject take.", s.review),
		newReadTool(s, "objective_next", "Roadmaps: how far each is and which step comes next.", s.objectives),
		newTool(s, Work, "task_plan", "Begin to plan a requirement, or plan a task again with feedback. Returns at once.", s.plan),
		newTool(s, Work, "task_control", "Start, stop, retry, cancel or deliver (push and open a pull request) a task. Returns at once. Not from inside a run.", s.control),
		newTool(s, All, "task_approve", "Agree to the plan that task_review showed, or to its waiting step. Only when the user says so. Not from inside a run.", s.approve),
		newTool(s, All, "task_reject", "Say no to the plan that task_review showed, or to its waiting step, with the user's reason. Not from inside a run.", s.reject),
	}
}
