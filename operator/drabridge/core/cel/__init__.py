"""DRA's CEL: the selectors of DeviceClasses and requests, evaluated as kube-scheduler does.

    from drabridge.core.cel.device import DeviceView
    from drabridge.core.cel.explain import explain
    from drabridge.core.cel.selector import compile_selector

    selector = compile_selector("device.driver == 'gpu.example.com'")
    view = DeviceView.of("gpu.example.com", {"attributes": {"model": {"string": "a100"}}})
    selector.matches(view)              # Match(matched=True, cost=4)
    explain(selector, view).root.parts  # what each part of the expression came to

`compile_selector(expression, environment)` gives a `Selector` for any number of devices and threads, or raises
`CompileError`. `DeviceView.of(driver, device)` gives the value of the variable `device`, to be made once a slice
version of JSON in the shape of resource.k8s.io/v1, or raises `BadDevice`. `Selector.matches(view)` gives
`Match(matched, cost)`, the cost in upstream's units, or raises `SelectorError`, which has the cost, too.
`explain(selector, view)` raises nothing: it gives an `Explanation`, with the same outcome and a tree of `Part`;
`instrument(selector).explain(view)` does so for many devices.

The environment is that of stored expressions (`environment.stored_expressions`), the scheduler's, unless that of
admission is given (`environment.new_expressions`, by the feature gates).

The errors' texts are those of k8s.io/dynamic-resource-allocation/cel v0.37.2, without the names of claim, selector and
device that kube-scheduler puts in front (`core.selection.runtime_failure`). Where outcome, text or cost differ from
upstream's: docs/cel.md.

How it works: `lexer`, `parser` (with `macros`) → `checker`, `validation` → `planner`, which makes a `plan` →
`compiler`, which makes a Python function of it. The function gives up where something goes wrong; then the plan is
walked, which knows all about errors. `recording` makes a plan that notes what its nodes come to, for `explain`.
"""
