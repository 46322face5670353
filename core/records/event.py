"""What arrives later: a CloudEvent 1.0 whose text, where it has one, is `data.text`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from core.errors import ConditionError
from core.records.base import EVENT_BYTES, EventText, Instant, Noun, text_problem


class Event(Noun):
    """One event; (source, id) names it."""

    specversion: Literal["1.0"] = "1.0"
    """CloudEvents version."""
    id: str = Field(min_length=1)
    """Unique within its source."""
    source: str = Field(min_length=1)
    """Who sent it."""
    type: str = Field(min_length=1)
    """Its registered or free type."""
    subject: str | None = None
    """What it is about."""
    time: Instant | None = None
    """When it occurred; None: the sender did not say."""
    data: dict[str, Any] = Field(default_factory=dict)
    """Its fields; `text` is what the learned trigger reads."""

    @model_validator(mode="after")
    def _text_can_be_read(self) -> Event:
        text = self.data.get("text")
        if text is not None:
            if not isinstance(text, str):
                raise ValueError("data.text must be a string")
            if (problem := text_problem(text, EVENT_BYTES)) is not None:
                raise ValueError(f"data.text {problem}")
        return self

    @property
    def text(self) -> str:
        """The text the learned trigger judges.

        Raises
        ------
        ConditionError : the event carries no text.
        """
        text = self.data.get("text")
        if not isinstance(text, str):
            raise ConditionError(f"Event {self.id} carries no text.", next_step="Give it a data.text.")
        return text


class EventLine(Noun):
    """The short form of an event in a case file: an instant and a text."""

    at: Instant
    """When it occurs."""
    text: EventText
    """What it says."""

    def as_event(self, event_id: str, source: str) -> Event:
        """Return it as a CloudEvent of type `text`."""
        return Event(id=event_id, source=source, type="text", time=self.at, data={"text": self.text})
