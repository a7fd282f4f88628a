package mcpserver

import "time"

// Patient is the server with all the time in the world, for tests of what it answers on a machine that is busy.
func (s *Server) Patient() *Server {
	s.callTimeout = 15 * time.Minute
	return s
}

// HoldOrders has orders wait until release is called, and Wait waits for the calls that go on.
func (s *Server) HoldOrders() (release func()) {
	s.orderLock.Lock()
	return s.orderLock.Unlock
}

func (s *Server) Wait() { s.calls.Wait() }
