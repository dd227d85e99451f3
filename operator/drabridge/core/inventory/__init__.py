"""A whole cluster as frozen records: what doctor, capacity and explain read, whether it came from files or live."""
