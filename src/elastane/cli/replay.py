"""``elastane replay``: decisions of the live system, made again from what was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from elastane.errors import ElastaneError
from elastane.kit.durations import duration

if TYPE_CHECKING:
    from elastane.service.store import Decision, Store

HELP = "Make recorded decisions of the live system again, by the same policy or by another."


def command(
    number: int = typer.Argument(None, help="Which decision [default: the latest]."),
    policy: str = typer.Option(None, help="Ask another policy instead; see 'elastane policies'."),
    all_: bool = typer.Option(False, "--all", help="Every recorded decision, one line each."),
    sim: bool = typer.Option(False, "--sim", help="Let the simulator repeat all finished jobs instead."),
    home: Path = typer.Option(None, help="Home of the live system [default: $ELASTANE_HOME or ~/.elastane]."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Repeats recorded decisions, or all jobs, and compares."""
    from elastane.service.home import open_store

    if sum((number is not None, all_, sim)) > 1:
        raise ElastaneError("a number, --all and --sim each say what to repeat; keep one of them")
    store = open_store(home)
    try:
        if sim:
            _rehearse(store, policy, as_json=as_json)
            return
        last = store.log.last_decision_seq()
        if not last:
            raise ElastaneError("no decision has been recorded yet")
        wanted = range(1, last + 1) if all_ else [number if number is not None else last]
        found = [
            decision for seq in wanted for decision in store.log.decisions(seq - 1, 1) if decision.seq == seq
        ]
    finally:
        store.close()
    if not found:
        raise ElastaneError(f"there is no decision {number} (the latest is {last}; old ones are forgotten)")
    answers = [_again(decision, policy) for decision in found]
    if as_json:
        typer.echo(json.dumps(answers if all_ else answers[0], indent=2))
    else:
        for answer in answers:
            _show(answer, brief=all_)
    if policy is None and any(not answer["same"] for answer in answers):
        raise typer.Exit(1)


def _rehearse(store: Store, written: str | None, *, as_json: bool) -> None:
    from dataclasses import asdict

    from elastane.policies.registry import make_policy
    from elastane.service.simulate_history import rehearse

    policy = make_policy(written or str(store.settings.get("policy") or "elastane"))
    jobs = rehearse(store, policy)
    real, simulated = (
        sum(side) / len(jobs) for side in zip(*((j.real_s, j.simulated_s) for j in jobs), strict=True)
    )
    if as_json:
        rows = [asdict(job) for job in jobs]
        typer.echo(
            json.dumps({"policy": policy.label(), "real_s": real, "simulated_s": simulated, "jobs": rows})
        )
        return
    for job in jobs:
        typer.echo(
            f"  {job.id} {job.name} ({job.kind}): {duration(job.real_s)}, simulated {duration(job.simulated_s)}"
        )
    typer.echo(
        f"mean completion time of {len(jobs)} jobs: {duration(real)}; simulated under {policy.label()} "
        f"{duration(simulated)} ({(simulated / real - 1.0) * 100:+.0f} %)"
    )


def _again(decision: Decision, written: str | None) -> dict[str, Any]:
    from elastane.policies.registry import make_policy
    from elastane.scheduling.record import decide_again

    policy = make_policy(written or decision.policy)
    recorded = dict(decision.plan)
    again = decide_again(policy, decision.view)
    return {
        "number": decision.seq,
        "at_s": decision.at_s,
        "policy": decision.policy,
        "asked": policy.label(),
        "trigger": decision.view["trigger"],
        "same": again == recorded,
        "decided": recorded,
        "again": again,
    }


def _show(answer: dict[str, Any], *, brief: bool) -> None:
    same = "the same" if answer["same"] else "OTHERWISE"
    typer.echo(
        f"decision {answer['number']} ({answer['trigger']}) by {answer['policy']}; "
        f"{answer['asked']} decides {same} now"
    )
    if brief:
        return
    for job in sorted({*answer["decided"]["grants"], *answer["again"]["grants"]}):
        before, after = (_places(answer[side]["grants"].get(job)) for side in ("decided", "again"))
        typer.echo(f"  {job}: {before}" + (f"  ≠  {after}" if before != after else ""))
    for job, why in answer["decided"]["waiting"].items():
        typer.echo(f"  {job} waits: {why}")


def _places(grant: dict[str, Any] | None) -> str:
    return ", ".join(f"{part['workers']} on {part['node']}" for part in grant["slices"]) if grant else "nothing"
