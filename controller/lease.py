"""Leadership by a coordination.k8s.io Lease, by client-go's rules.

Correctness does not hang on it: the log arbitrates, and two controllers may act at once (rule 1). It saves the double
work. The rules, as in client-go's leader election: the holder renews every `retry_s` and gives up when it has not
managed to for `renew_deadline_s`; another one takes over when it has seen the Lease unchanged for the Lease's duration,
*by its own monotonic clock since it saw the last change*. Times of two machines are never compared: `renewTime` counts
only as something that changes. The deadline is shorter than the duration, so the old holder stops first.

Whoever loses the Lease raises LeadershipLost, and the process ends: what it had in memory and in flight is then gone
for certain.
"""

import datetime
import random
from typing import Any, NoReturn

import msgspec
from structlog.typing import FilteringBoundLogger

from controller.waiting import within
from kube import client as kube
from kube.clock import Clock
from kube.names import LEASES

MEND_FIRST = (kube.Unauthorized, kube.Forbidden, kube.BadRequest, kube.NotFound)
"""Errors of acquiring that waiting does not mend. (NotFound: of a creation, the namespace is missing.)"""


class LeadershipLost(Exception):
    """This process does not lead any more and must not act."""


class LeaseConfig(msgspec.Struct, frozen=True):
    """Which Lease, who we are (`<pod name>-<random>`), and client-go's times in seconds."""

    namespace: str
    name: str
    identity: str
    duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


class _Spec(msgspec.Struct, frozen=True):
    """What a Lease says; fields that are absent or null count as empty."""

    holder: str | None = msgspec.field(name="holderIdentity", default=None)
    duration_s: int | None = msgspec.field(name="leaseDurationSeconds", default=None)
    acquired: str | None = msgspec.field(name="acquireTime", default=None)
    renewed: str | None = msgspec.field(name="renewTime", default=None)
    transitions: int | None = msgspec.field(name="leaseTransitions", default=None)


class Elector:
    """One contender for one Lease."""

    def __init__(
        self, client: kube.KubeClient, clock: Clock, rng: random.Random, log: FilteringBoundLogger, config: LeaseConfig
    ) -> None:
        if not config.retry_s < config.renew_deadline_s < config.duration_s:
            raise ValueError("a Lease's times must rise: retry, renew deadline, duration")
        self._client = client
        self._clock = clock
        self._rng = rng
        self._log = log
        self._config = config
        self._seen: _Spec | None = None
        self._seen_at = 0.0
        self._lives = False
        self._renewed_at = 0.0
        self._acquired = False
        self._asked_s = 0.0

    @property
    def waits_for(self) -> str:
        """The name of the Lease while it is not acquired yet, else empty."""
        return "" if self._acquired else self._config.name

    def leader(self) -> str:
        """Give who leads: this process, or a holder that it has seen renew the Lease, which has not run out since.

        Empty if there is none. What the Lease said when it was looked at first proves nothing: its holder may be dead.
        """
        if self._acquired:
            return self._config.identity if self._left() > 0 else ""
        if self._seen is None or not self._lives or self._ran_out(self._seen):
            return ""
        return self._seen.holder or ""

    def ensure(self) -> None:
        """Raise LeadershipLost unless this process leads; one that stood still does much before `keep` has its turn."""
        if self.leader() != self._config.identity:
            raise LeadershipLost(f"the Lease {self._config.name} has run out")

    async def acquire(self) -> None:
        """Return once this process leads. Raises a KubeError that waiting does not mend (MEND_FIRST)."""
        while not await self._try_to_acquire():
            # The jitter is client-go's: contenders that started together do not stay in step.
            await self._clock.sleep(max(self._config.retry_s * self._rng.uniform(1.0, 2.2), self._asked_s))
        self._acquired = True

    async def keep(self) -> NoReturn:
        """Renew until that fails for good; raises LeadershipLost."""
        while (left := self._left()) > 0:
            await self._clock.sleep(min(max(self._config.retry_s, self._asked_s), left))
            try:
                held = await within(self._clock, self._left(), self._attempt())
            except TimeoutError:
                continue
            except kube.KubeError as error:
                self._log.warning("lease not renewed", lease=self._config.name, cause=str(error))
                self._asked_s = self._pause_asked(error)
                continue
            self._asked_s = 0.0
            # A renewal that did not succeed although the Lease names us was overtaken by a change of another part of
            # the object; the deadline decides.
            if not held and (self._seen is None or self._seen.holder != self._config.identity):
                raise LeadershipLost(f"the Lease {self._config.name} has another holder")
        raise LeadershipLost(f"the Lease {self._config.name} could not be renewed in {self._config.renew_deadline_s} s")

    async def release(self) -> None:
        """Let the next one in at once, if the Lease is ours: it may be even if `acquire` was cut off before it knew.

        A failure is logged, and waiting is bounded: then the Lease runs out by itself.
        """
        try:
            await within(self._clock, self._config.renew_deadline_s, self._let_go())
        except TimeoutError:
            self._log.warning("lease not released", lease=self._config.name, cause="no answer in time")
        except kube.NotFound:
            return  # Nobody has it.
        except kube.KubeError as error:
            self._log.warning("lease not released", lease=self._config.name, cause=str(error))

    async def _let_go(self) -> None:
        body, spec = await self._read()
        if spec.holder == self._config.identity:
            await self._put(body, {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()})

    def _left(self) -> float:
        """Give the seconds until we have to stop, counted from before the last successful renewal was sent."""
        return self._renewed_at + self._config.renew_deadline_s - self._clock.monotonic()

    async def _try_to_acquire(self) -> bool:
        try:
            held = await within(self._clock, self._config.renew_deadline_s, self._attempt())
        except TimeoutError:
            self._log.warning("lease not acquired", lease=self._config.name, cause="no answer in time")
        except MEND_FIRST:
            raise
        except kube.KubeError as error:
            self._log.warning("lease not acquired", lease=self._config.name, cause=str(error))
            self._asked_s = self._pause_asked(error)
        else:
            self._asked_s = 0.0
            return held
        return False

    def _pause_asked(self, error: kube.KubeError) -> float:
        """Give for how long the server asks to be left alone (failure case B11), the Lease's duration at most."""
        asked_s = error.retry_after_s if isinstance(error, kube.ApiError) else None
        return min(asked_s or 0.0, self._config.duration_s)

    async def _attempt(self) -> bool:
        """Take or renew the Lease if it is free or ours; say whether it is ours now."""
        began = self._clock.monotonic()
        try:
            body, spec = await self._read()
        except kube.ResourceMissing:
            raise
        except kube.NotFound:
            return await self._create(began)
        if spec != self._seen:
            self._lives = self._seen is not None
            self._seen, self._seen_at = spec, self._clock.monotonic()
        ours = spec.holder == self._config.identity
        # Who finds that another has led since does not lead on, even where nobody does now: its clock may have stopped.
        if not ours and (self._acquired or not self._ran_out(spec)):
            return False
        change: dict[str, Any] = {
            "holderIdentity": self._config.identity,
            "leaseDurationSeconds": self._config.duration_s,
            "renewTime": self._now(),
        }
        if not ours:
            change["acquireTime"] = change["renewTime"]
            change["leaseTransitions"] = (spec.transitions or 0) + 1
        try:
            await self._put(body, change)
        except kube.Conflict:
            return False
        self._renewed_at = began
        return True

    def _ran_out(self, spec: _Spec) -> bool:
        if not spec.holder:
            return True
        duration = spec.duration_s or self._config.duration_s
        return self._clock.monotonic() >= self._seen_at + duration

    async def _read(self) -> tuple[dict[str, Any], _Spec]:
        """Give the Lease as it is, and what it says; the rest of the object is put back as it was."""
        raw = await self._client.get(LEASES, self._config.namespace, self._config.name)
        try:
            body = msgspec.json.decode(raw, type=dict[str, Any])
            return body, msgspec.convert(body.get("spec") or {}, _Spec)
        except msgspec.DecodeError as error:
            raise kube.Unreachable(f"the Lease {self._config.name} cannot be read: {error}") from error

    async def _put(self, body: dict[str, Any], change: dict[str, Any]) -> None:
        changed = {**body, "spec": {**(body.get("spec") or {}), **change}}
        raw = msgspec.json.encode(changed)
        await self._client.replace(LEASES, self._config.namespace, self._config.name, raw)

    async def _create(self, began: float) -> bool:
        now = self._now()
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._config.name, "namespace": self._config.namespace},
            "spec": {
                "holderIdentity": self._config.identity,
                "leaseDurationSeconds": self._config.duration_s,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }
        try:
            await self._client.create(LEASES, self._config.namespace, msgspec.json.encode(body))
        except kube.Conflict:
            return False
        self._renewed_at = began
        return True

    def _now(self) -> str:
        """Give the time as Kubernetes' MicroTime, for people: nobody computes with it."""
        now = datetime.datetime.fromtimestamp(self._clock.now_ms() / 1000, datetime.UTC)
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
