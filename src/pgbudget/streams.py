"""A stream on its way to the client: metered, and where its hold grows passed on only as far as it is held."""

from __future__ import annotations

import asyncio

import httpx

from pgbudget.client import Client
from pgbudget.endings import ending_of
from pgbudget.growing import GrowingHold
from pgbudget.reservation import Reservation
from pgbudget.upstream import pieces
from pgbudget.wire.dialect import Meter

#: For so long a client may keep a growing stream from being read on; then all that may come meanwhile must be held.
_STALL_SECONDS = 1.0


class Stream:
    """One stream. Its end is reported before the last byte goes out."""

    def __init__(self, response: httpx.Response, meter: Meter, client: Client, reservation: Reservation) -> None:
        self._response = response
        self._meter = meter
        self._client = client
        self._reservation = reservation

    async def pass_on(self, growing: GrowingHold | None, idle_seconds: float) -> None:
        """Send it on, to its end or until it breaks or is cut. ``growing``: what must hold it, where its hold grows."""
        try:
            async for chunk in pieces(self._response, idle_seconds):
                if growing is not None:
                    if not await self._grow(growing, chunk):
                        return
                elif out := self._meter.stream(chunk):
                    await self._client.send(out)
        except (httpx.HTTPError, httpx.StreamError):
            self._conclude(broken=True)
            # The client must see that the stream broke: the response is left unfinished, so the server cuts it.
            return
        rest = self._meter.close()
        self._conclude(broken=False)
        if self._client.waits_for_cost:
            rest += b": pgbudget-cost-usd %s\n\n" % (await self._reservation.cost()).encode()
        await self._client.send(rest, more=False)

    async def _grow(self, growing: GrowingHold, chunk: bytes) -> bool:
        """Pass on what is held of a chunk, event by event; returns false when the stream was cut there."""
        meter = self._meter
        out: list[bytes] = []
        events = meter.pieces(chunk)
        for event in events:
            # What has ended on its own has nothing on its way.
            if self._ended() or growing.fits(meter.seen):
                out.append(event)
                continue
            if out:
                await self._client.send(b"".join(out))
                out.clear()
            if await growing.make_room(meter.seen):
                out.append(event)
                continue
            end = meter.cut()
            # What has come is charged, passed on or not.
            rest = [event, *events]
            if not self._ended():
                await self._cut(end, "no room to grow")
                return False
            out = rest
        if not out:
            return True
        sending = asyncio.ensure_future(self._client.send(b"".join(out)))
        try:
            await asyncio.wait({sending}, timeout=_STALL_SECONDS)
            if not sending.done() and not await growing.fill():
                # The client does not read, and its provider does not wait for it.
                await self._cut(meter.cut(), "client stalled", sending)
                return False
            await sending
        finally:
            sending.cancel()
        return True

    def _ended(self) -> bool:
        """Whether the provider has said that nothing more comes."""
        return self._meter.finished and self._meter.request.choices == 1

    async def _cut(self, end: bytes, why: str, sending: asyncio.Future[None] | None = None) -> None:
        """End the stream in the dialect's words, but first at its provider: what that goes on to generate is not held."""
        await self._response.aclose()
        self._meter.note["reason"] = f"cut: {why}"
        self._conclude(broken=True)
        if sending is not None:
            await sending
        await self._client.send(end, more=False)

    def _conclude(self, *, broken: bool) -> None:
        self._reservation.end(ending_of(self._meter, broken=broken))
