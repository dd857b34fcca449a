"""The task that delivers alerts. Any number of gateways may run one: a delivery is claimed in the database, and is its worker's
until that says how it went, or the lease is over. So an alert arrives at least once, and seldom twice.

Each destination is served by itself: one that hangs keeps nothing from the others. No call waits for any of this.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from decimal import Decimal
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout

from pgbudget.alerts.channels import TIMEOUT_SECONDS, Channel, Failed, channels
from pgbudget.alerts.message import Alert
from pgbudget.alerts.settings import AlertSettings
from pgbudget.db import Database

log = logging.getLogger("pgbudget.alerts")

_POLL_SECONDS = 2.0
_AWAY_SECONDS = 10.0
_BATCH = 4
#: Longer than a whole batch can take, so that nothing is claimed by another worker that this one is still about to send.
_LEASE_SECONDS = int(_BATCH * 2 * TIMEOUT_SECONDS) + 40
_FINISH_TRIES = 5

_CLAIM = "select alert_id, attempt, kind, payload::text as payload, created_at from budget.claim_alerts(%s, %s, %s, array[%s])"
_FINISH = "select budget.finish_alert(%s, %s, %s, %s, %s, %s) as state"


class AlertWorker:
    """Delivers what is due to all that is configured."""

    def __init__(self, database: Database, settings: AlertSettings) -> None:
        self._database = database
        self._settings = settings
        self._channels: list[Channel] = channels(settings)
        self._name = f"{socket.gethostname()[:100]}/{os.getpid()}"
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start delivering, if anything is configured."""
        if self._channels:
            self._task = asyncio.create_task(self._work(), name="alerts")

    async def stop(self) -> None:
        """Stop. What was being sent is sent again when its lease is over."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for channel in self._channels:
            await channel.close()

    async def _work(self) -> None:
        await self._announce()
        async with asyncio.TaskGroup() as group:
            for channel in self._channels:
                group.create_task(self._serve(channel), name=f"alerts {channel.name}")

    async def _announce(self) -> None:
        """Say what is configured, so that alerts have deliveries from now on."""
        names, mail = self._settings.destinations, self._settings.mail
        soft_only = ["smtp"] if mail is not None and mail.soft_only else []
        while True:
            try:
                await self._database.fetch("select budget.set_alert_destinations(%s::text[], %s::text[])", names, soft_only)
            except (psycopg.Error, PoolTimeout) as error:
                self._away(error)
                await asyncio.sleep(_AWAY_SECONDS)
            else:
                log.info("alerts go to %s", ", ".join(names))
                return

    async def _serve(self, channel: Channel) -> None:
        while True:
            try:
                rows = await self._database.fetch(_CLAIM, self._name, _BATCH, _LEASE_SECONDS, channel.name)
            except (psycopg.Error, PoolTimeout) as error:
                self._away(error)
                await asyncio.sleep(_AWAY_SECONDS)
                continue
            for row in rows:
                await self._deliver(channel, row)
            if not rows:
                await asyncio.sleep(_POLL_SECONDS)

    async def _deliver(self, channel: Channel, row: dict[str, Any]) -> None:
        failed: Failed | None = None
        try:
            payload = json.loads(row["payload"], parse_float=Decimal)
            await channel.send(Alert(row["alert_id"], row["kind"], payload, row["created_at"]))
        except Failed as error:
            failed = error
        except Exception as error:
            # Its text may have anything in it.
            failed = Failed(f"could not be sent ({type(error).__name__})")
        state = await self._finish(channel, row["alert_id"], failed)
        if failed is not None:
            level = logging.ERROR if state == "dead" else logging.WARNING
            log.log(level, "alert %d to %s, try %d: %s; %s", row["alert_id"], channel.name, row["attempt"], failed, state)

    async def _finish(self, channel: Channel, alert_id: int, failed: Failed | None) -> str:
        """Say how it went. If the database cannot be told, the lease runs out and it is sent again."""
        outcome = (True, None, None, False) if failed is None else (False, str(failed), failed.retry_after, failed.permanent)
        for attempt in range(_FINISH_TRIES):
            try:
                return str((await self._database.fetch(_FINISH, alert_id, channel.name, *outcome))[0]["state"])
            except (psycopg.Error, PoolTimeout) as error:
                log.warning("alert %d to %s: not booked (%s)", alert_id, channel.name, type(error).__name__)
                await asyncio.sleep(attempt)
        return "not booked"

    def _away(self, error: Exception) -> None:
        hint = ": grant this login budget_reconciler" if isinstance(error, psycopg.errors.InsufficientPrivilege) else ""
        log.warning("alerts are not delivered (%s)%s", type(error).__name__, hint)
