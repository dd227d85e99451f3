"""Checks of a whole cluster: each a small function from an inventory to what it finds."""
