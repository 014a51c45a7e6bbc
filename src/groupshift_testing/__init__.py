"""Every port in memory: first-class adapters used by tests and the simulator."""
