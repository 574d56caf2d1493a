"""`python -m gipper.testing.toymarket`: the toy market on loopback until Ctrl-C."""

from __future__ import annotations

import contextlib

import click

from gipper.runtime import RealRuntime
from gipper.testing.toymarket.app import ToyApp, served
from gipper.testing.toymarket.market import ToyMarket


@click.command()
@click.option("--port", type=int, default=8731, show_default=True)
def main(port: int) -> None:
    """Serve a toy market; nothing on it is real."""
    runtime = RealRuntime()
    market = ToyMarket(runtime)
    with served(ToyApp(market), port) as url, contextlib.suppress(KeyboardInterrupt):
        click.echo(f"toy market at {url}, key {market.key}; Ctrl-C ends it")
        runtime.wait_any([runtime.event()])


if __name__ == "__main__":
    main()
