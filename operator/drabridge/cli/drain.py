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
from drabridge.delivery.drain import Remains, remains, switch_off
from drabridge.kube.client import Client

HELP = """Make drabridge ready to be removed: switch its webhook off and wait until no Pod needs it.

Pods that were rewritten go on after its removal: their claims are theirs. New Pods are no longer rewritten from the
moment this begins. Exit code 1 if Pods still wait for their claims when the time is over.

\b
Examples:
  See what would remain:
    drabridge drain --dry-run
  Drain, then remove:
    drabridge drain && kubectl delete -k manifests/overlays/default --ignore-not-found
"""

POLL_SECONDS = 1.0


def drain(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for Pods without their claims.")] = 120.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look; switch nothing off.")] = False,
) -> None:
    """Drain, and say what remains."""
    left = asyncio.run(_drain(kubeconfig, context, timeout, dry_run=dry_run))
    if left.without_claim and not dry_run:
        raise typer.Exit(1)


async def _drain(kubeconfig: Path | None, context: str | None, patience: float, *, dry_run: bool) -> Remains:
    console = Console(highlight=False, soft_wrap=True)
    async with await Client.connect(kubeconfig, context, user_agent=f"drabridge-cli/{version('drabridge')}") as client:
        if not dry_run:
            there = await switch_off(client)
            console.print("webhook: switched off" if there else "webhook: was off already")
        deadline = time.monotonic() + (0 if dry_run else patience)
        with Console(stderr=True).status("") as status:
            while (left := await remains(client)).without_claim and time.monotonic() < deadline:
                status.update(f"{len(left.without_claim)} Pods wait for their claims")
                await asyncio.sleep(POLL_SECONDS)
    _report(console, left)
    return left


def _report(console: Console, left: Remains) -> None:
    for key in left.without_claim[:20]:
        console.print(f"Pod {key} has no claim yet: it needs drabridge to run, or is to be deleted and created again")
    if len(left.without_claim) > 20:
        console.print(f"… and {len(left.without_claim) - 20} more Pods without claims")
    console.print(f"rewritten Pods with their claims: {left.running}; they go on, and free their devices when they end")
    if left.companions:
        console.print(
            f"companion quotas: {len(left.companions)}; they go on capping claims until the quotas they stand in for"
            f" are deleted, or they are: {', '.join(left.companions[:5])}"
        )
    console.print(f"policies: {left.policies}; they go with the CRD")
    if left.without_claim:
        console.print("drabridge is still needed.")
    else:
        console.print("drabridge can be deleted: kubectl delete -k manifests/overlays/default --ignore-not-found")
