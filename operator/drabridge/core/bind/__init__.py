"""Bind: what a stock kube-scheduler that calls us as its extender is answered, and what is written for a Pod.

    asking = Asking.of(pod, cluster)                  asking: extended names -> what a claim has to ask for, node by node
    claims = claims_of(pod, statuses, lookup)         podclaims: the claims that the Pod names
    placement = place(...)                            placement: what the four writes of a bind say

Everything here is decided from frozen values; `delivery.bind` gathers them and applies what comes out.
"""
