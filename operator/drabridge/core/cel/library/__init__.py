"""The functions that expressions may call, a module a library."""
