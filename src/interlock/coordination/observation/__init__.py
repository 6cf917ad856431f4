"""The observation of leases: events for hooks and logs, and metrics for collectors."""
