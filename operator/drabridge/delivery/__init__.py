"""Gather, let the core decide, apply once."""
