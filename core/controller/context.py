"""What an execution is told from outside: the events it hears, and the facts that only its caller knows.

Refused: an event whose text cannot be stored (empty, NUL, no Unicode, over 1 MiB) and an instant without a zone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from core.clock import new_id
from core.errors import ConditionError
from core.hashing import json_hash
from core.records.base import EVENT_BYTES, text_problem
from core.records.case import Stratum
from core.records.trace import ArmName, Boundary, EvidenceClass, Origin, StepTime


@dataclass(frozen=True)
class Heard:
    """One event as the controller hears it.

    Parameters
    ----------
    text : what it says.
    at : when it occurs; None where the sender did not say, then expiry is not judged.
    step : its position among the operations; None for the final event, which comes after all of them.
    """

    text: str
    at: datetime | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        if (problem := text_problem(self.text, EVENT_BYTES)) is not None:
            raise ConditionError(f"The text of an event {problem}.", next_step="Give the event a readable text.")
        if self.at is not None and self.at.tzinfo is None:
            raise ConditionError("The instant of an event has no zone.", next_step="Give it an offset or Z.")


@dataclass(frozen=True)
class Context:
    """Everything a trace states that neither records, events, arm nor backbone can tell.

    `backbone_hash_after` is measured once, when the shard ends: until then it is None, the integrity step reads
    *not reached*, and `core.controller.trail.with_hash_after` fills it in.
    """

    # Identity
    run_id: str
    """The run it belongs to."""
    evidence_class: EvidenceClass
    """What the trace may be used for."""
    episode_id: str
    """The independent episode or case."""
    expected_trigger: bool
    """Whether something should fire on the final event."""
    expected_record: str | None
    """The record that should fire."""
    expected_payload: str | None
    """The payload that should be acted on."""
    backbone_hash_before: str
    """SHA-256 over all weights, before the shard."""
    backbone_hash_after: str | None = None
    """The same after it; None: not measured yet."""
    origin: Origin = Origin.OURS
    """Who produced it."""
    contract: str | None = None
    """The frozen contract it falls under."""
    # Design
    match_id: str | None = None
    """The positive-negative pair it belongs to."""
    seed: int | None = None
    """The generator's seed."""
    boundary: Boundary = Boundary.SAME_PROCESS
    """What lay between writing and event."""
    family: str | None = None
    """The controlled episode's family."""
    source: str | None = None
    """The case's writing packet."""
    stratum: Stratum | None = None
    """The case's semantic group."""
    # What happened around the execution
    memory_write_ok: bool | None = None
    """Records read back equal after the boundary; ignored in an arm that writes none."""
    device: str = "cpu"
    """Where backbone and trigger ran."""
    writer_pid: int | None = None
    """The process that wrote."""
    responder_pid: int | None = None
    """The process that answers."""
    store_reopened: bool = False
    """Whether it opened the store anew after the writer had exited."""
    earlier_times: tuple[StepTime, ...] = ()
    """One time each of the write and boundary steps, which lie before the answer."""
    fresh: bool = False
    """Generate this trial's null output anew, past the cache (C3 only)."""
    trace_id: str = field(default_factory=new_id)
    """UUIDv7."""

    def execution_key(self, arm: ArmName, backbone: str) -> str:
        """Return the hash of contract, episode, arm, seed, boundary and backbone: equal in every re-run."""
        return execution_key(self.contract, self.episode_id, arm, self.seed, self.boundary, backbone)


def execution_key(
    contract: str | None, episode_id: str, arm: ArmName, seed: int | None, boundary: Boundary, backbone: str
) -> str:
    """Return the hash that names one planned execution, whichever run carries it out."""
    return json_hash(
        {
            "contract": contract,
            "episode": episode_id,
            "arm": arm.value,
            "seed": seed,
            "boundary": boundary.value,
            "backbone": backbone,
        }
    )
