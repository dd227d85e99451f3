"""The allocation core: which devices the claims of a Pod get on a node.

    snapshot = Snapshot.of(slices, classes)                     snapshot
    state = AllocatedState.of_claims(claims)                    state
    allocate(snapshot, state, node, claims)                     allocate: Allocated | Unfit | Undecided

The behaviour is that of k8s.io/dynamic-resource-allocation/structured v0.37.2, experimental flavour.
`docs/allocation.md` says where we differ, and why the search may skip what it skips.
"""
