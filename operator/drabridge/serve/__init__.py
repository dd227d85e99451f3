"""The HTTP servers: admission webhook, probes, metrics."""
