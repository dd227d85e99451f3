"""Bind: what a stock kube-scheduler that calls us as its extender is answered, and what is written for a Pod.

    asking = Asking.of(pod, cluster)             asking: extended names -> what a claim has to ask for, node by node
    claims = claims_of(pod, made, lookup)        podclaims: the claims that the Pod names
    request = Scene.of(...).on(node)             scene: what has to be allocated on a node
    reserved_status(...), binding(...), ...      placement: what the writes of a bind say, and what takes them back

Everything here is decided from frozen values; `delivery.bind` gathers them and applies what comes out.
"""
