package mcpserver

// HoldOrders has orders wait until release is called, and Wait waits for the calls that go on.
func (s *Server) HoldOrders() (release func()) {
	s.order.Lock()
	return s.order.Unlock
}

func (s *Server) Wait() { s.calls.Wait() }
