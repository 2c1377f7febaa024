"""Implements ``elastane predict``: time and cost of a run before it starts, and the time left while it runs.

One module per verb; none imports anything heavy before it runs, so that the help stays quick.
"""

from __future__ import annotations

import typer

from elastane.cli.predict import backtest, calibrate, devices, eta, explain, probe, run, step

HELP = "Time and cost of a training before it starts, and the time left while it runs."
app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)

app.command("step", help=step.HELP)(step.command)
app.command("run", help=run.HELP)(run.command)
app.command("calibrate", help=calibrate.HELP)(calibrate.command)
app.command("probe", help=probe.HELP)(probe.command)
app.command("explain", help=explain.HELP)(explain.command)
app.command("eta", help=eta.HELP)(eta.command)
app.command("backtest", help=backtest.HELP)(backtest.command)
app.command("devices", help=devices.HELP)(devices.command)
