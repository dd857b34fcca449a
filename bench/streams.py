"""Many slow streams on one gateway process: its memory, its heartbeats, and whether what is large delays other streams.

``.venv/bin/python -m bench.streams [--streams 2000] [--seconds 30] [--big 8] [--json FILE]``

The same streams twice: alone, and beside some that carry an event of 0.9 to 8 MB each second. The gateway, the two simulated
providers (one for the large events) and the two clients are processes of their own. Fails where a bound is passed. Where the
machine itself is slow, the second run says little alone: what counts is its delay against that of the first.

memory      resident memory of the gateway at its highest, in MB (of a million)
delay       how much later than its provider's pace an event of a small stream came, in milliseconds: half, 99 percent, worst
processor   how much of one the gateway used, of all the time; near 100 percent everything is late, whoever is the cause
heartbeat   the oldest that the heartbeat of any open reservation ever was, in seconds, and the interval
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.processes import Gateway, Simulator, wait_until

from bench.support import DEFAULT_SERVER, database, gateway_login, machine, make_chain

#: The pace of a stream, and an interval of heartbeats that is short enough to be seen in a short run.
CHUNK_MS, HEARTBEAT_SECONDS, STALE_SECONDS = 1000, 5, 30
#: Sizes of the large events.
BIG_BYTES = (900_000, 2_000_000, 4_000_000, 8_000_000)
#: A client begins so many streams a second.
RAMP = 200
MEMORY_MB = 400
SLACK_SECONDS = 5


@dataclass(slots=True)
class Outcome:
    """What came of one run."""

    streams: int
    big: int
    memory_mb: float
    processor: float
    delay_ms: tuple[float, float, float]
    heartbeat_seconds: float
    interval_seconds: float
    whole: int
    differences: int


async def read(session: aiohttp.ClientSession, url: str, request: dict[str, Any], after: float) -> list[float]:
    """One stream, from its beginning to its end; returns the delays of its events in seconds, none if it was not whole."""
    await asyncio.sleep(after)
    delays = []
    last = b""
    async with session.post(f"{url}/v1/chat/completions", **request) as answer:
        assert answer.status == 200, await answer.text()
        before = None
        async for chunk in answer.content.iter_any():
            now = time.monotonic()
            if before is not None:
                delays.append(now - before - CHUNK_MS / 1000)
            before = now
            last = (last + chunk)[-40:]
    return delays if b"[DONE]" in last else []


async def read_all(url: str, key: str, model: str, paddings: list[int], seconds: int) -> list[list[float]]:
    """Streams with events of these sizes, begun one after the other."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        return await asyncio.gather(*(
            read(session, url, {
                "headers": {
                    "authorization": f"Bearer {key}",
                    "x-simulate": json.dumps(
                        {"chunk_ms": CHUNK_MS, "completion_tokens": seconds, "chunks": seconds, "padding": padding}
                    ),
                },
                "json": {
                    "model": model, "stream": True, "max_tokens": 1000,
                    "messages": [{"role": "user", "content": "How does it go on?"}],
                },
            }, number / RAMP)
            for number, padding in enumerate(paddings)
        ))  # fmt: skip


def read_big(url: str, key: str, big: int, seconds: int) -> None:
    """The client of the large events, in a process of its own."""
    paddings = [BIG_BYTES[number % len(BIG_BYTES)] for number in range(big)]
    if not all(asyncio.run(read_all(url, key, "t-pro", paddings, seconds))):
        sys.exit("a stream of large events was not whole")


class Watch:
    """Looks at memory and heartbeats until it is left."""

    def __init__(self, dsn: str, pid: int) -> None:
        self.memory_mb = self.processor = 0.0
        self.heartbeat_seconds = 0.0
        self._dsn, self._pid = dsn, pid
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._started, self._used_before = time.monotonic(), self._used()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()
        self.processor = (self._used() - self._used_before) / (time.monotonic() - self._started)
        status = dict(line.split(":", 1) for line in Path(f"/proc/{self._pid}/status").read_text().splitlines())
        self.memory_mb = int(status["VmHWM"].split()[0]) * 1024 / 1e6

    def _used(self) -> float:
        """Seconds of a processor."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _look(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._left.wait(0.5):
                (age,) = connection.execute(
                    "select coalesce(max(stale_seconds - extract(epoch from stale_at - clock_timestamp())), 0)"
                    " from budget_internal.reservations"
                ).fetchone() or (0,)
                self.heartbeat_seconds = max(self.heartbeat_seconds, float(age))


def measure(dsn: str, login: str, streams: int, big: int, seconds: int) -> Outcome:
    """One run, on a gateway and simulators of its own."""
    with ExitStack() as stack, psycopg.connect(dsn, autocommit=True) as connection:
        key = make_chain(connection, f"streams{big}")
        policy = {"heartbeat_seconds": HEARTBEAT_SECONDS, "stale_seconds": STALE_SECONDS}
        connection.execute("select budget.set_policy(null, %s)", (json.dumps(policy),))
        connection.execute("select budget.set_route(null, 't-pro', 'simulator', 'big')")
        simulator, other = stack.enter_context(Simulator()), stack.enter_context(Simulator())
        account: dict[str, Any] = {"account_big_url": f"{other.url}/v1", "account_big_key": Simulator.KEY}
        gateway = stack.enter_context(Gateway(login, simulator.url, **account))
        beside = multiprocessing.get_context("spawn").Process(
            target=read_big, args=(gateway.url, key, big, seconds + streams // RAMP)
        )
        with Watch(dsn, gateway.pid) as watch:
            if big:
                beside.start()
            answers = asyncio.run(read_all(gateway.url, key, "t-mini", [0] * streams, seconds))
            if big:
                beside.join(120)
                assert beside.exitcode == 0
        open_now = "select count(*) from budget_internal.reservations"
        wait_until(lambda: (connection.execute(open_now).fetchone() or (1,))[0] == 0, 60, "settlement of everything")
        differences = len(connection.execute("select * from budget.verify()").fetchall())
        delays = sorted(delay for answer in answers for delay in answer)
    quantiles = tuple(round(1000 * delays[int(share * (len(delays) - 1))], 1) for share in (0.5, 0.99, 1))
    return Outcome(
        streams, big, watch.memory_mb, watch.processor, quantiles, watch.heartbeat_seconds, HEARTBEAT_SECONDS,  # type: ignore[arg-type]
        sum(map(bool, answers)), differences,
    )  # fmt: skip


def faults(outcome: Outcome) -> list[str]:
    """What does not hold."""
    return [
        fault
        for fault, found in {
            f"{outcome.memory_mb:.0f} MB are resident": outcome.memory_mb >= MEMORY_MB,
            f"a heartbeat came after {outcome.heartbeat_seconds:.1f} s": outcome.heartbeat_seconds
            # A call is first due when it is as old as an interval, which may have just begun.
            > 2 * outcome.interval_seconds + SLACK_SECONDS,
            f"{outcome.streams - outcome.whole} streams were not whole": outcome.whole < outcome.streams,
            "the books are wrong": outcome.differences > 0,
        }.items()
        if found
    ]


def main() -> None:
    """Measure and report; fails where a bound is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["15", "18"], default=DEFAULT_SERVER)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--seconds", type=int, default=30, help="how long each stream is")
    parser.add_argument("--big", type=int, default=8, help="streams with large events")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    # The gateway has two descriptors a stream; children have what their parent has.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(machine())
    outcomes = []
    with database(arguments.server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            login = gateway_login(connection, dsn)
        for big in (0, arguments.big):
            outcome = measure(dsn, login, arguments.streams, big, arguments.seconds)
            outcomes.append(outcome)
            half, most, worst = outcome.delay_ms
            print(
                f"{outcome.streams} streams, {big} with large events: memory {outcome.memory_mb:.0f} MB,"
                f" processor {outcome.processor:.0%},"
                f" delay {half:.0f} / {most:.0f} / {worst:.0f} ms, heartbeat {outcome.heartbeat_seconds:.1f} s"
                f" (interval {outcome.interval_seconds:.0f} s), whole {outcome.whole}",
                flush=True,
            )
    alone, beside = (outcome.delay_ms for outcome in outcomes)
    added = " / ".join(f"{after - before:+.0f}" for before, after in zip(alone, beside, strict=True))
    print(f"delay beside large events: {added} ms (half, 99 percent, worst)")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "outcomes": [*map(asdict, outcomes)]}, indent=1) + "\n")
    if bad := [fault for outcome in outcomes for fault in faults(outcome)]:
        sys.exit("; ".join(bad))


if __name__ == "__main__":
    main()
