"""``elastane up`` and ``elastane down``: the live system on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from elastane.service.home import UpOptions

UP_HELP = (
    "Start the live system here: API, scheduler and workers. Ctrl-C saves jobs and ends it, as 'down' does."
)
DOWN_HELP = "End the live system: jobs are saved and go on at the next 'elastane up'; commands start over."


def up(
    nodes: int = typer.Option(
        None, help="Divide this machine into so many nodes [default: 1, or one per GPU type]."
    ),
    slots: int = typer.Option(None, help="Slots of each node [default: its GPUs, or its cores]."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on; others than loopback need TLS."),
    port: int = typer.Option(0, help="Port to listen on; 0 takes a free one."),
    policy: str = typer.Option("elastane", help="How to divide the cluster; see 'elastane policies'."),
    interval: float = typer.Option(None, min=0.1, help="Seconds between rounds of re-dividing."),
    min_run: float = typer.Option(
        60.0, min=0.0, help="Seconds before a started job may be suspended for another."
    ),
    tls_cert: Path = typer.Option(None, help="Certificate (PEM) for HTTPS."),
    tls_key: Path = typer.Option(None, help="Its private key."),
    insecure: bool = typer.Option(False, "--insecure", help="Listen on any address without TLS."),
    listen: str = typer.Option(
        "",
        metavar="HOST:PORT",
        help="Let other machines join here; see 'elastane node' [default: nobody joins].",
    ),
    engine: str = typer.Option("local", help="What supplies machines: local (none but this one) or ray."),
    address: str = typer.Option(
        None, metavar="HOST:PORT", help="With --engine ray: the cluster to use [default: one is started here]."
    ),
    pool: list[str] = typer.Option(
        None,
        metavar="NAME:gpus=2,most=4",
        help="With --engine ray: machines to get as needed (gpus, cpus, accelerator, least, most, price, label.NAME).",
    ),
    jobs_as: str = typer.Option(
        None,
        envvar="ELASTANE_JOBS_AS",
        help="As whom jobs run: me, tenant (a user for each) or a user's name; root has to say.",
    ),
    tenant_user: list[str] = typer.Option(
        None, metavar="TENANT=USER", help="With --jobs-as tenant: a tenant's user that is there already."
    ),
    checkpoints: str = typer.Option(
        None,
        metavar="URL",
        help="Where jobs save that name no place: s3://, gs://, file:// or an absolute path that all nodes reach.",
    ),
    max_pending: int = typer.Option(10_000, min=1, help="Jobs that a tenant may have waiting."),
    max_tokens: int = typer.Option(50, min=1, help="Tokens that a user may have."),
    home: Path = typer.Option(None, help="Where everything is kept [default: $ELASTANE_HOME or ~/.elastane]."),
    restore: bool = typer.Option(False, "--restore", help="Go back to the last good copy of the store."),
    detach: bool = typer.Option(False, "--detach", "-d", help="Run in the background."),
    as_json: bool = typer.Option(False, "--json", help="Print where it is as JSON."),
) -> None:
    """Starts the live system on this machine."""
    from elastane.engines.local.job_users import JobsAs
    from elastane.engines.nodes.places import joins_at, parse_address
    from elastane.engines.ray.head import how_to_join
    from elastane.engines.ray.options import DEFAULT_LISTEN, ray_options
    from elastane.kit.storage_urls import checked
    from elastane.policies.registry import make_policy
    from elastane.service.home import TOKEN, UpOptions, check_reach, default_home, start_detached
    from elastane.service.limits import Limits

    make_policy(policy)
    machines = ray_options(engine, address, pool or (), insecure=insecure, environment=os.environ)
    if machines is not None:
        listen = listen or DEFAULT_LISTEN
    if listen:
        parse_address(listen, "--listen")
    place = (home or default_home()).absolute()
    options = UpOptions(
        place,
        nodes,
        slots,
        host,
        port,
        policy,
        interval,
        tls_cert,
        tls_key,
        insecure,
        min_run,
        restore,
        limits=Limits(max_tokens, max_pending),
        jobs_as=JobsAs.chosen(jobs_as, tenant_user or ()),
        checkpoints=checked(checkpoints, "--checkpoints") if checkpoints else "",
        machines=machines,
        listen=listen,
    )
    check_reach(options)

    def started(url: str, warnings: Sequence[str]) -> None:
        if as_json:
            joining = {"joins": joins_at(place)} if listen else {}
            told = {"url": url, "home": str(place), "token": str(place / TOKEN), **joining}
            typer.echo(json.dumps(told))
            return
        typer.echo(f"Elastane is up: {url}")
        for warning in warnings:
            typer.echo(f"note: {warning}")
        typer.echo(f"token: {place / TOKEN}")
        if listen and (joins := joins_at(place)):
            typer.echo(f"nodes join at {joins}; 'elastane node secret' prints what to type there")
        if machines is not None and not machines.address:
            typer.echo(f"machines join Ray with: {how_to_join(place)}")
        typer.echo("next: elastane submit -- python train.py")

    if detach:
        there = start_detached(place, _again(options))
        started(there.url, [options.jobs_as.note] if options.jobs_as.note else [])
        return
    _run(options, started)


def _run(options: UpOptions, started: Callable[[str, Sequence[str]], None]) -> None:
    from elastane.service.gc_tuning import while_importing

    with while_importing():
        from elastane.service.daemon import run
    from elastane.service.home import left

    asyncio.run(run(options, started))
    if words := left(options.home):
        typer.echo(f"Elastane has ended: {words}")


def _again(options: UpOptions) -> list[str]:
    """The same options as words."""
    words = [f"--home={options.home}", f"--host={options.host}", f"--port={options.port}"]
    words += [f"--policy={options.policy}", f"--min-run={options.min_run_s}"]
    words += [
        f"--max-pending={options.limits.pending_per_tenant}",
        f"--max-tokens={options.limits.tokens_per_user}",
    ]
    given = {
        "nodes": options.nodes,
        "slots": options.slots,
        "interval": options.interval_s,
        "tls-cert": options.tls_cert,
        "tls-key": options.tls_key,
    }
    words += [f"--{name}={value}" for name, value in given.items() if value is not None]
    words += [f"--jobs-as={options.jobs_as.who}"]
    words += [f"--tenant-user={tenant}={user}" for tenant, user in options.jobs_as.mapped.items()]
    words += [f"--checkpoints={options.checkpoints}"] if options.checkpoints else []
    words += [f"--listen={options.listen}"] if options.listen else []
    words += options.machines.words() if options.machines is not None else []
    words += ["--insecure"] if options.insecure else []
    return [*words, "--restore"] if options.restore else words


def down(
    home: Path = typer.Option(None, help="Home of the system to end [default: $ELASTANE_HOME or ~/.elastane]."),
    keep: bool = typer.Option(False, "--keep-running", help="End only the control plane; jobs train on."),
    as_json: bool = typer.Option(False, "--json", help="Print what was ended as JSON."),
) -> None:
    """Ends the live system, or only its control plane."""
    from elastane.service.home import default_home, left, stop

    place = (home or default_home()).absolute()
    ended = stop(place, leave_running=keep)
    jobs = left(place) if ended is not None else ""
    if as_json:
        typer.echo(json.dumps({"pid": ended.pid if ended else None, "home": str(place), "jobs": jobs}))
    elif ended is None:
        typer.echo(f"Elastane does not run on {place}; there is nothing to end")
    else:
        typer.echo(f"Elastane on {place} has ended" + (f": {jobs}" if jobs else ""))
        typer.echo("'elastane up' takes it up again")
