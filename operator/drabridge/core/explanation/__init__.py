"""One page about one object: what it asks, who serves it, what it got; or the first thing that holds it up."""
