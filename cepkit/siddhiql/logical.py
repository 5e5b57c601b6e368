"""States of ``and`` and ``or``: two halves that share their partial matches."""

from __future__ import annotations

from cepkit.siddhiql.states import Event, PartialState, WaitingState


class LogicalHalf(WaitingState):
    """One side of ``and`` or ``or``; a partial match waits in both halves at once."""

    partner: LogicalHalf
    resets_on_failure = False

    def __init__(self, slot: int, n_slots: int, operator: str, **keywords: bool):
        super().__init__(slot, n_slots, **keywords)
        self.is_or = operator == "or"

    def add(self, partial: PartialState) -> None:
        """Add a partial match to both halves."""
        for half in (self, self.partner):
            if not ((self.is_start or self.is_sequence) and half.fresh):
                half.fresh.append(partial)

    def add_again(self, partial: PartialState) -> None:
        """Add a copy of a partial match to both halves."""
        made = partial.copy_before(self.slot)
        made.slots[self.partner.slot] = None
        self.fresh.append(made)
        self.partner.fresh.append(made)

    def reset(self) -> None:
        """Forget the partial matches of a sequence, unless one half of ``and`` has its event."""
        if self.is_or or len(self.pending) == len(self.partner.pending):
            self.partner.pending.clear()
            super().reset()

    def update(self) -> None:
        """Let the fresh partial matches of both halves take events from now on."""
        WaitingState.update(self)
        WaitingState.update(self.partner)

    def take(self, event: Event) -> list[PartialState]:
        """Offer an event to all partial matches, and return those that are complete."""
        if self.is_or:
            other = self.partner.slot
            self.pending[:] = [partial for partial in self.pending if partial.slots[other] is None]
        return super().take(event)

    def accept(self, partial: PartialState) -> None:
        """Pass a partial match on if the other half agrees."""
        if self.is_or:
            super().accept(partial)
            if self.partner.is_last and self.completed is self.partner:
                self.partner.is_complete = True
        elif self.partner.can_follow(partial):
            super().accept(partial)
        else:
            self.is_changed = True

    def can_follow(self, partial: PartialState) -> bool:
        """Return whether this half of ``and`` is satisfied, so that the other half completes the state."""
        return partial.slots[self.slot] is not None
