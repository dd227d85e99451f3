"""drabridge: unmodified Pods that ask for extended resources are served by Dynamic Resource Allocation."""
