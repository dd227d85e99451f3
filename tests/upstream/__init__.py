"""A real Kubernetes control plane for tests and the demo: one Go program, run as separate processes on loopback."""
