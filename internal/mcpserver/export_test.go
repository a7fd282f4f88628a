package mcpserver

import "time"

// Patient sets a time limit that a busy machine does not reach, for tests of the answers.
func (s *Server) Patient() *Server {
	s.callTimeout = 15 * time.Minute
	return s
}

// HoldOrders keeps orders from beginning until release is called. Wait waits for calls that are still at work.
func (s *Server) HoldOrders() (release func()) {
	s.orderLock.Lock()
	return s.orderLock.Unlock
}

func (s *Server) Wait() { s.calls.Wait() }
