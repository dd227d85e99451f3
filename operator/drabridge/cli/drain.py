"""`drabridge drain`: make drabridge ready to be removed."""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from drabridge.cli.options import Context, Kubeconfig
from drabridge.delivery.bindterm import WAKEUP
from drabridge.delivery.drain import Remains, remains, switch_off
from drabridge.kube.client import Client

HELP = """Make drabridge ready to be removed: switch its webhook off and wait until no Pod needs it.

Pods that were rewritten go on after its removal, and so do those that Bind has bound: their claims are theirs. New Pods
are no longer rewritten, nor sent to drabridge's kube-scheduler, from the moment this begins. Exit code 1 if Pods still
wait for their claims, or for that scheduler, when the time is over.

\b
Examples:
  See what would remain:
    drabridge drain --dry-run
  Drain, then remove:
    drabridge drain && kubectl delete -k manifests/overlays/default --ignore-not-found
"""

POLL_SECONDS = 1.0
NAMED = 20


def drain(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for Pods that need drabridge.")] = 120.0,
    bind_scheduler: Annotated[
        str, typer.Option(help="The schedulerName of the Pods that Bind serves, as the operator was told it.")
    ] = "drabridge-scheduler",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look; switch nothing off.")] = False,
) -> None:
    """Drain, and say what remains."""
    left = asyncio.run(_drain(kubeconfig, context, timeout, bind_scheduler, dry_run=dry_run))
    if left.needs_us and not dry_run:
        raise typer.Exit(1)


async def _drain(
    kubeconfig: Path | None, context: str | None, patience: float, bind_scheduler: str, *, dry_run: bool
) -> Remains:
    console = Console(highlight=False, soft_wrap=True)
    async with await Client.connect(kubeconfig, context, user_agent=f"drabridge-cli/{version('drabridge')}") as client:
        if not dry_run:
            there = await switch_off(client)
            console.print("webhook: switched off" if there else "webhook: was off already")
        deadline = time.monotonic() + (0 if dry_run else patience)
        with Console(stderr=True).status("") as status:
            while (left := await remains(client, bind_scheduler)).needs_us and time.monotonic() < deadline:
                status.update(f"Pods wait: {len(left.without_claim)} for claims, {len(left.unbound)} for a node")
                await asyncio.sleep(POLL_SECONDS)
    _report(console, left)
    return left


def _report(console: Console, left: Remains) -> None:
    _name(console, left.without_claim, "has no claim yet: it needs drabridge, or is to be deleted and created again")
    _name(console, left.unbound, "waits for drabridge's kube-scheduler, or is to be deleted and created again")
    console.print(f"rewritten Pods with their claims: {left.running}; they go on, and free their devices when they end")
    if left.bound:
        console.print(f"Pods bound by Bind: {left.bound}; they go on, and free their devices when they end")
    if left.companions:
        console.print(
            f"companion quotas: {len(left.companions)}; they go on capping claims until the quotas they stand in for"
            f" are deleted, or they are: {', '.join(left.companions[:5])}"
        )
    console.print(f"policies: {left.policies}; they go with the CRD")
    if left.wakeup:
        console.print(f"DeviceClass {WAKEUP}: no manifest names it; afterwards: kubectl delete deviceclass {WAKEUP}")
    if left.needs_us:
        console.print("drabridge is still needed.")
    else:
        console.print("drabridge can be deleted: kubectl delete -k manifests/overlays/default --ignore-not-found")
        if left.bound or left.wakeup:
            console.print("(with delivery Bind it is the overlay bind)")


def _name(console: Console, keys: tuple[str, ...], problem: str) -> None:
    for key in keys[:NAMED]:
        console.print(f"Pod {key} {problem}")
    if len(keys) > NAMED:
        console.print(f"… and {len(keys) - NAMED} more Pods like these")
