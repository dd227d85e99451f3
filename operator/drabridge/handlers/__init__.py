"""Kopf registrations: what wakes us up, nothing else."""
